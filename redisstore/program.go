// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script, not a secret
	"embed"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed lua/*.lua
var sources embed.FS

// program is a script and its name on the server.
type program struct {
	text, sha string
	short     bool // whether it may reply with one text, as take.lua does

	each *program // its form for several keys, nil if there is none: see each.lua
}

// parts are the optional parts of a program's files: those between the marks <more> and
// </more>, and so on.
type parts uint8

const (
	withMore parts = 1 << iota
	withSlot
	forOne  // one key
	forEach // several keys
)

var marks = map[string]parts{"--<more>": withMore, "--<slot>": withSlot, "--<one>": forOne, "--<each>": forEach}

// assemble makes a program from files. It omits comments, as a server keeps the whole text of
// a script. It replaces the mark <core> by the file core.
func assemble(with parts, files ...string) *program {
	var b strings.Builder
	skip := false
	var add func(file string)
	add = func(file string) {
		src, err := sources.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic("redisstore: " + err.Error()) //nolint:forbidigo // never happens: the files are embedded
		}
		for line := range strings.Lines(string(src)) {
			line = strings.TrimSpace(line)
			if part, ok := marks[line]; ok {
				skip = with&part == 0
			}
			switch line {
			case "--</more>", "--</slot>", "--</one>", "--</each>":
				skip = false
			case "--<core>":
				add("core")
			}
			if !skip && line != "" && !strings.HasPrefix(line, "--") {
				b.WriteString(line)
				b.WriteByte('\n')
			}
		}
	}
	for i, f := range files {
		if !slices.Contains(files[:i], f) { // two kinds may share a file
			add(f)
		}
	}
	sum := sha1.Sum([]byte(b.String())) //nolint:gosec // see the import
	return &program{text: b.String(), sha: hex.EncodeToString(sum[:])}
}

// takesOf makes the program of a file that decides takes under one limit, and its form for
// several keys.
func takesOf(file string) *program {
	p := assemble(forOne, file)
	p.short, p.each = true, assemble(forEach, file, "each")
	return p
}

// programs are the scripts of a store. A general program holds only the kinds of limit
// that a request needs, as a server creates its functions anew with every call.
type programs struct {
	slots, start, secret, swap *program

	mu      sync.Mutex
	general [1 << kinds]*program // by kinds and, as no kind is 0, withASlot
	takes   [kinds]*program      // by kind; that of the bucket is made at the start
}

var kindFiles = [kinds][]string{
	kindBucket: {"balance", "bucket"}, kindInterval: {"balance", "interval"}, kindFixed: {"window", "fixed"}, kindCounter: {"window", "counter"}, kindLog: {"window", "ring", "log"},
	kindBlock: {"block"}, kindWarm: {"balance", "bucket", "warmup"},
}

// flatFiles are the files that decide the usual take of a kind without functions.
var flatFiles = [kinds]string{kindCounter: "countertake", kindLog: "logtake"}

func newPrograms() *programs {
	return &programs{
		takes: [kinds]*program{kindBucket: takesOf("take")},
		slots: assemble(withMore, "core", "slot", "slots"),
		start: assemble(withMore, "start"), secret: assemble(withMore, "secret"), swap: assemble(withMore, "swap"),
	}
}

// withASlot is the bit, beside those of kinds, for a program that also decides a slot.
const withASlot = 1

// of returns the program for a set of kinds, a bit for each.
func (p *programs) of(set uint8) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.general[set] == nil {
		files, with := []string{"core", "general"}, withMore
		if set&withASlot != 0 {
			files, with = append(files, "slot"), with|withSlot
		}
		for k, list := range kindFiles {
			if set&(1<<k) != 0 {
				files = append(files, list...)
			}
		}
		p.general[set] = assemble(with, append(files, "main")...)
	}
	return p.general[set]
}

// ofTakes returns the program for takes under one limit of kind k.
func (p *programs) ofTakes(k kind) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.takes[k] != nil:
	case k == kindFixed:
		p.takes[k] = takesOf("fixedtake")
	default:
		files := append(append([]string{"core", "general"}, kindFiles[k]...), "takes")
		if flat := flatFiles[k]; flat != "" { // before the functions, which every call creates
			files = slices.Insert(files, 0, flat)
		}
		p.takes[k] = assemble(forOne, files...)
		p.takes[k].short = flatFiles[k] != ""
		if k == kindCounter {
			p.takes[k].each = assemble(forEach, flatFiles[k], "each")
		}
	}
	return p.takes[k]
}

// invocation is a program with its keys, all in one hash slot, and its arguments.
type invocation struct {
	*program
	Script
	shares bool // whether it is a take that may share a call with takes of other keys

	scripts [1]*Script // for a call of the Client, whose arguments would be allocated otherwise
	replies [1]Reply
}

func newInvocation(p *program, keys []string, args ...string) *invocation {
	return &invocation{program: p, Script: Script{Keys: keys, Args: args}}
}

func (c *invocation) bySHA() *Script {
	c.SHA, c.Text = c.sha, ""
	return &c.Script
}

func (c *invocation) byText() *Script {
	c.SHA, c.Text = c.sha, c.text
	return &c.Script
}

// run sends the program by its name, once.
func (c *invocation) run(ctx context.Context, s *Store) Reply { return c.send(ctx, s, c.bySHA()) }

func (c *invocation) send(ctx context.Context, s *Store, script *Script) Reply {
	c.scripts[0] = script
	s.client.Run(ctx, c.scripts[:], c.replies[:])
	r := c.replies[0]
	c.scripts[0], c.replies[0] = nil, Reply{}
	return r
}

// While a hash slot moves to another node, both may have keys of it, or each may name the
// other as its owner. Then the server runs nothing and the script is sent again.
const (
	movingTries = 12
	movingPause = 2 * time.Millisecond // doubled each time, up to movingMost
	movingMost  = 100 * time.Millisecond
)

// do runs the program. It sends the program again, with its text, if the server does not
// know it, and after a pause if the server is moving the keys: in both cases the server has
// run nothing. Nothing else is sent twice, except by the rules of [Client].
func (c *invocation) do(ctx context.Context, s *Store) Reply {
	return c.retry(ctx, s, c.run(ctx, s))
}

// retry returns res or, if the server has run nothing, the result of sending the program
// again.
func (c *invocation) retry(ctx context.Context, s *Store, res Reply) Reply {
	pause := movingPause
	for range movingTries {
		switch {
		case res.says("NOSCRIPT"):
			res = c.send(ctx, s, c.byText())
		case errors.Is(res.Err, errNotRun):
			res = c.run(ctx, s)
		case res.moving() && s.cluster:
			if !wait(ctx, pause) {
				return res
			}
			pause = min(2*pause, movingMost)
			res = c.run(ctx, s)
		default:
			return res
		}
	}
	return res
}
