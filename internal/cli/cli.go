// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package cli runs a program's commands from a table, from which help, completion,
// a man page and a page of documentation follow.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluicegate/sluice/internal/spelling"
)

// Exit codes.
const (
	OK     = 0
	Failed = 1 // what was asked for was not done, or what was checked has faults
	Usage  = 2 // the arguments are wrong
)

// A Program is a set of commands.
type Program struct {
	Name     string
	Summary  string // one sentence
	Doc      string // as that of a Command
	Commands []Command
}

// A Command is what a program does if its arguments begin with the words of its Name.
type Command struct {
	Name    string // one word, or two: "key show"
	Args    string // its arguments, as help shows them
	Summary string // a line without a full stop
	// Doc is paragraphs, between which there are empty lines. Lines that begin with two
	// spaces are shown as they are.
	Doc   string
	Flags []Flag
	// ArgWords are what the arguments may be, for completion; nil: files.
	ArgWords []string
	// KeepFaults has Run called also where flags are wrong, to report these together
	// with what else is.
	KeepFaults bool
	Run        func(context.Context, *Call) error
}

// A Flag is an option of a command.
type Flag struct {
	Name   string
	Value  string // what the value is, in capitals; empty: a switch
	Doc    string // a sentence or two, without a full stop at the end
	Group  string // the heading above it, where that is another than the flag's before
	Repeat bool   // it may be given more than once
	// Words are what the value may be, for completion; nil: anything, such as a file.
	Words []string
}

// A Call is a command with its arguments.
type Call struct {
	Values
	Args           []string
	Faults         error // of the flags, if the command keeps them
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Values are those of flags; a switch that is given has an empty one.
type Values map[string][]string

// Given reports whether a flag is there.
func (v Values) Given(name string) bool { return len(v[name]) > 0 }

// One returns the value of a flag, the last if there are several, empty if there is none.
func (v Values) One(name string) string {
	if all := v[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// JSON writes a value as indented JSON.
func (c *Call) JSON(value any) error {
	doc, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = c.Stdout.Write(append(doc, '\n'))
	return err
}

// Print writes a text.
func (c *Call) Print(text string) error {
	_, err := io.WriteString(c.Stdout, text)
	return err
}

// ErrFailed ends a command with [Failed] without a word: it has said why.
var ErrFailed = errors.New("failed")

// A UsageError is wrong arguments.
type UsageError struct{ Err error }

// Error returns what is wrong, a fault a line.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the faults.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Run runs the command that the arguments name, and returns the exit code.
func (p *Program) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		say(stderr, p.Help())
		return Usage
	}
	if args[0] == "help" || isHelp(args[0]) {
		return p.help(args[1:], stdout, stderr)
	}
	c, rest := p.find(args)
	if c == nil && len(args) > 1 && isHelp(args[1]) {
		return p.help(args[:1], stdout, stderr)
	}
	if c == nil {
		say(stderr, p.Name+": "+p.unknown(args)+"\n")
		return Usage
	}
	values, rest, err := c.parse(rest)
	if errors.Is(err, errHelp) {
		say(stdout, p.CommandHelp(c))
		return OK
	}
	call := &Call{Values: values, Args: rest, Stdin: stdin, Stdout: stdout, Stderr: stderr}
	if c.KeepFaults {
		call.Faults, err = err, nil
	}
	if err == nil {
		err = c.Run(ctx, call)
	}
	return p.ended(c, err, stderr)
}

// ended says what went wrong, if anything did.
func (p *Program) ended(c *Command, err error, stderr io.Writer) int {
	if err == nil {
		return OK
	}
	if _, wrong := errors.AsType[*UsageError](err); wrong {
		for line := range strings.Lines(err.Error() + "\n") {
			say(stderr, p.Name+" "+c.Name+": "+line)
		}
		say(stderr, "see "+p.Name+" "+c.Name+" --help\n")
		return Usage
	}
	if !errors.Is(err, ErrFailed) {
		say(stderr, p.Name+": "+err.Error()+"\n")
	}
	return Failed
}

// help shows the help of what is named.
func (p *Program) help(names []string, stdout, stderr io.Writer) int {
	if len(names) == 0 {
		say(stdout, p.Help())
		return OK
	}
	if c, _ := p.find(names); c != nil {
		say(stdout, p.CommandHelp(c))
		return OK
	}
	if text := p.under(names[0]); text != "" {
		say(stdout, text)
		return OK
	}
	say(stderr, p.Name+": "+p.unknown(names)+"\n")
	return Usage
}

// find returns the command that arguments begin with, and those behind it.
func (p *Program) find(args []string) (*Command, []string) {
	for _, words := range []int{2, 1} {
		if len(args) < words {
			continue
		}
		for i := range p.Commands {
			if p.Commands[i].Name == strings.Join(args[:words], " ") {
				return &p.Commands[i], args[words:]
			}
		}
	}
	return nil, nil
}

// second returns the second words of the commands that begin with a word.
func (p *Program) second(first string) (words []string) {
	for i := range p.Commands {
		if a, b, ok := strings.Cut(p.Commands[i].Name, " "); ok && a == first {
			words = append(words, b)
		}
	}
	return words
}

// unknown says which commands there are.
func (p *Program) unknown(args []string) string {
	first, names := args[0], []string(nil)
	if words := p.second(first); len(words) > 0 {
		if len(args) == 1 {
			return fmt.Sprintf("%s: missing subcommand; use %s", first, list(words))
		}
		return fmt.Sprintf("%s: unknown subcommand %q; use %s", first, args[1], list(words))
	}
	seen := map[string]bool{}
	for i := range p.Commands {
		if a, _, _ := strings.Cut(p.Commands[i].Name, " "); !seen[a] {
			seen[a], names = true, append(names, a)
		}
	}
	if meant := spelling.Nearest(first, func(yield func(string) bool) {
		for _, n := range names {
			if !yield(n) {
				return
			}
		}
	}); meant != "" {
		return fmt.Sprintf("unknown command %q; did you mean %s? See %s help", first, meant, p.Name)
	}
	return fmt.Sprintf("unknown command %q; use %s", first, list(names))
}

// list joins words as a sentence does.
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// say writes a text. If that fails there is nowhere left to say so.
func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }
