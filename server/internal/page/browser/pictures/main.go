// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command pictures takes the pictures of the page in docs/img: of an idle, a busy
// and a broken gateway, which run for eight minutes. It needs redis-server,
// chromium, and sluice at the path it is given:
//
//	pictures SLUICE FOLDER
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// traffic is for how long there are requests.
const traffic = 8 * time.Minute

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pictures SLUICE FOLDER")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := take(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func take(ctx context.Context, program, folder string) (err error) {
	program, err = filepath.Abs(program)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(ctx, traffic+5*time.Minute)
	defer cancel()
	gates, err := startAll(ctx, program, dir)
	defer func() {
		for _, g := range gates {
			err = errors.Join(err, g.stop())
		}
	}()
	if err != nil {
		return err
	}
	if err := ask(ctx, gates, dir); err != nil {
		return err
	}
	for _, p := range []struct {
		name   string
		gate   string
		width  int64
		height int64
		scheme string
	}{
		{"page-idle", "idle", 1440, 800, "light"},
		{"page-busy", "busy", 1440, 924, "light"},
		{"page-broken", "broken", 1440, 800, "light"},
		{"page-narrow-dark", "busy", 390, 1400, "dark"},
	} {
		if err := picture(ctx, gates[p.gate].page, p.width, p.height, p.scheme, filepath.Join(folder, p.name+".png")); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// process is a program that runs until it is stopped.
type process struct {
	page string // of sluice
	cmd  *exec.Cmd
}

// run starts a program in a folder; its output is the text of a fault.
func run(ctx context.Context, dir, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...)} //nolint:gosec // what the caller has named
	p.cmd.Dir, p.cmd.Stderr = dir, os.Stderr
	return p, p.cmd.Start()
}

func (p *process) stop() error {
	if p == nil || p.cmd.Process == nil || p.cmd.ProcessState != nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	_ = p.cmd.Wait() // says that it was killed
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// picture opens a page in a browser of its own and writes what it shows.
func picture(ctx context.Context, url string, width, height int64, scheme, file string) error {
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithAllocatorOptions(
		chromedp.ExecPath("chromium"), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun))
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height)); err != nil {
		return err
	}
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		return err
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		return err
	}
	select {
	case <-time.After(3 * time.Second): // it draws what it is sent, each second
	case <-ctx.Done():
		return ctx.Err()
	}
	image, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	return os.WriteFile(file, image, 0o644) //nolint:gosec // a picture for all to see
}
