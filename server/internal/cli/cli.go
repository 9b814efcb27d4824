// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package cli runs a program's commands from a table. It makes help, completion, a man page
// and a page of documentation from the same table.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes.
const (
	OK     = 0
	Failed = 1 // the command has failed, or has found faults
	Usage  = 2 // the arguments are wrong
)

// A Program is a set of commands.
type Program struct {
	Name     string
	Summary  string // one sentence
	Doc      string // paragraphs, as in a Command
	Commands []Command
}

// A Command runs if the arguments begin with the words of its Name.
type Command struct {
	Name    string // one word, or two: "key show"
	Args    string // its arguments, as help shows them; empty: it has none
	Summary string // a line without a full stop
	// Doc holds paragraphs separated by empty lines. Lines that begin with four spaces are
	// shown unchanged.
	Doc   string
	Flags []Flag
	// ArgWords are the possible arguments, for completion; nil: files.
	ArgWords []string
	// KeepFaults runs the command even if flags are wrong, so that it reports these faults
	// together with others.
	KeepFaults bool
	Run        func(context.Context, *Call) error
}

// A Flag is an option of a command.
type Flag struct {
	Name   string
	Letter string // the short form; empty: none
	Value  string // a name for the value, in capitals; empty: a switch
	Doc    string // a sentence or two, without a full stop at the end
	Group  string // the heading above it; empty: that of the flag before
	Repeat bool   // it may be given more than once
	// Words are the possible values, for completion; nil: anything, such as a file.
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

// Values holds the values of flags. A switch that was given has an empty value.
type Values map[string][]string

// Given reports whether a flag was given.
func (v Values) Given(name string) bool { return len(v[name]) > 0 }

// One returns the value of a flag, the last if there are several, or "".
func (v Values) One(name string) string {
	if all := v[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// Show writes a value as JSON if the flag json is given, or else as a text.
func (c *Call) Show(value any, text string) error {
	if c.Given("json") {
		return c.JSON(value)
	}
	return c.Print(text)
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

// ErrFailed ends a command with [Failed] and no message: the command has written one.
var ErrFailed = errors.New("failed")

// A UsageError holds the faults of arguments.
type UsageError struct{ Err error }

// Error returns the faults, one a line.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the faults.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

const width = 80

// fill breaks paragraphs into lines for a terminal. Lines that begin with a space stay.
func fill(doc string) string {
	var b strings.Builder
	for line := range strings.Lines(doc) {
		if strings.HasPrefix(line, " ") {
			b.WriteString(line)
			continue
		}
		column := 0
		for word := range strings.FieldsSeq(line) {
			if column += 1 + len(word); column > width+1 {
				b.WriteByte('\n')
				column = 1 + len(word)
			} else if column > 1+len(word) {
				b.WriteByte(' ')
			}
			b.WriteString(word)
		}
		b.WriteByte('\n')
	}
	return strings.TrimSpace(b.String())
}

// help returns the help of a command. It replaces cobra's template: a program with
// text/template keeps every method of every type, which is 17 MB of this one.
func (p *Program) help(cmd *cobra.Command) string {
	var b strings.Builder
	if cmd.HasSubCommands() {
		b.WriteString(cmd.Long + "\n\n")
		for i := range p.Commands {
			if c := &p.Commands[i]; strings.HasPrefix(p.Name+" "+c.Name, cmd.CommandPath()) {
				fmt.Fprintf(&b, "  %s %-12s  %s\n", p.Name, c.Name, c.Summary)
			}
		}
		fmt.Fprintf(&b, "\n%s COMMAND --help shows the flags of a command.\n", cmd.CommandPath())
		return strings.TrimLeft(b.String(), "\n")
	}
	b.WriteString(cmd.CommandPath() + ": " + cmd.Short + "\n\n  " + cmd.UseLine() + "\n\n" + cmd.Long + "\n")
	heading, flags := "Flags:", pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	write := func(next string) {
		if flags.HasFlags() {
			b.WriteString("\n" + heading + "\n" + flags.FlagUsagesWrapped(width))
		}
		heading, flags = next, pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.SortFlags = false
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(*value); ok && v.flag.Group != "" {
			write(v.flag.Group)
		}
		flags.AddFlag(f)
	})
	write("")
	return b.String()
}

// text returns the text of the flag in help.
func (f *Flag) text() string {
	if f.Repeat {
		return f.Doc + "; repeatable"
	}
	return f.Doc
}

// Man returns the manual page, made from the Markdown.
func (p *Program) Man() string {
	about := strings.TrimPrefix(strings.TrimSuffix(p.Summary, "."), p.Name+" ")
	text := fmt.Sprintf("%% %[1]s 1\n\n# NAME\n\n%[1]s - %[2]s\n\n# DESCRIPTION\n\n%[3]s\n\n# COMMANDS\n%[4]s\n# EXIT STATUS\n\n%[5]s\n", p.Name, about, p.Doc, p.commands(), exits)
	page := strings.ReplaceAll(string(md2man.Render([]byte(text))), `\-`, "-") // md2man escapes the hyphens of the name only
	return strings.ReplaceAll(page, "-", `\-`)                                 // flags need the minus sign
}

// Markdown returns the pages of all commands.
func (p *Program) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s on the command line\n\n%s Written by `%s man --markdown`.\n\n", p.Name, p.Summary, p.Name)
	b.WriteString("| command | what it does |\n|---|---|\n")
	for i := range p.Commands {
		c := &p.Commands[i]
		fmt.Fprintf(&b, "| [`%s %s`](#%s) | %s |\n", p.Name, c.Name, strings.ReplaceAll(p.Name+" "+c.Name, " ", "-"), c.Summary)
	}
	return b.String() + "\n" + exits + "\n" + p.commands()
}

const exits = "The exit code is 0 if all went well, 1 if something failed or has faults, and 2 if the arguments are wrong."

// commands returns a section of Markdown for each command.
func (p *Program) commands() string {
	var b strings.Builder
	for i := range p.Commands {
		c := &p.Commands[i]
		call := strings.TrimSpace(p.Name + " " + c.Name + " " + c.Args)
		fmt.Fprintf(&b, "\n## %s %s\n\n    %s\n\n%s\n", p.Name, c.Name, call, strings.TrimSpace(cmp.Or(c.Doc, c.Summary)))
		for j := range c.Flags {
			f := &c.Flags[j]
			switch {
			case f.Group != "":
				b.WriteString("\n" + f.Group + "\n\n")
			case j == 0:
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "- `--%s`: %s\n", strings.TrimSpace(f.Name+" "+f.Value), f.text())
		}
	}
	return b.String()
}
