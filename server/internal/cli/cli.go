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
	// Doc is paragraphs, between which there are empty lines. Lines that begin with four
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
	Letter string // what may be written for the name; empty: nothing
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
