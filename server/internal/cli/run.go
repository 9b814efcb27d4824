// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicegate/sluice/internal/spelling"
)

// Run runs the command that the arguments name, and returns the exit code.
func (p *Program) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:len(args):len(args)], "--help")
	}
	root := p.root(args)                      //nolint:contextcheck // cobra passes it on
	root.SetArgs(append([]string{}, args...)) // cobra replaces nil by the arguments of the process
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if len(args) == 0 {
		root.SetOut(stderr)
		_ = root.Help() // as say
		return Usage
	}
	cmd, rest, err := root.Find(args)
	if err == nil && cmd.HasSubCommands() && args[0] != cobra.ShellCompRequestCmd && args[0] != cobra.ShellCompNoDescRequestCmd {
		err = unknown(cmd, rest)
	}
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	return ended(cmd, err, stderr)
}

// unknown returns the error of an unknown or missing command, or nil if rest begins with a
// flag.
func unknown(cmd *cobra.Command, rest []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	use := "use " + strings.Join(names, ", ")
	switch {
	case len(rest) == 0:
		return Usagef("no command; %s", use)
	case strings.HasPrefix(rest[0], "-") && strings.Trim(rest[0], "-") != "":
		return nil // a flag
	}
	return Usagef("unknown command %q; %s", rest[0], cmp.Or(meant("did you mean %s?", rest[0], names), use))
}

// meant formats the name that is nearest to given, or returns "" if none is near.
func meant(format, given string, names []string) string {
	if name := spelling.Nearest(given, slices.Values(names)); name != "" {
		return fmt.Sprintf(format, name)
	}
	return ""
}

// ended writes the error of a command, and returns the exit code.
func ended(cmd *cobra.Command, err error, stderr io.Writer) int {
	if err == nil {
		return OK
	}
	if _, wrong := errors.AsType[*UsageError](err); wrong {
		for line := range strings.Lines(err.Error() + "\n") {
			say(stderr, cmd.CommandPath()+": "+line)
		}
		say(stderr, "see "+cmd.CommandPath()+" --help\n")
		return Usage
	}
	if !errors.Is(err, ErrFailed) {
		say(stderr, cmd.Root().Name()+": "+err.Error()+"\n")
	}
	return Failed
}

// say writes a text. An error of that cannot be reported.
func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// root returns the program as a cobra command for these arguments.
func (p *Program) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use: p.Name, Long: fill(p.Summary + "\n\n" + p.Doc), Args: cobra.ArbitraryArgs,
		SilenceErrors: true, SilenceUsage: true, CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { say(cmd.OutOrStdout(), p.help(cmd)) })
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{err} })
	groups := map[string]*cobra.Command{}
	for i := range p.Commands {
		c, above := &p.Commands[i], root
		first, second, more := strings.Cut(c.Name, " ")
		if more {
			if above = groups[first]; above == nil {
				above = &cobra.Command{Use: first, Args: cobra.ArbitraryArgs}
				groups[first] = above
				root.AddCommand(above)
			}
			above.Short = strings.TrimPrefix(above.Short+", "+second, ", ")
		}
		above.AddCommand(c.cobra(args))
	}
	return root
}

// cobra returns the command as a cobra command.
func (c *Command) cobra(args []string) *cobra.Command {
	call := &Call{Values: make(Values)}
	run := func(cmd *cobra.Command, rest []string) error {
		if call.Faults != nil && !c.KeepFaults {
			return &UsageError{call.Faults}
		}
		if c.Args == "" && !c.KeepFaults && len(rest) > 0 {
			return Usagef("expected no argument, got %q", rest[0])
		}
		call.Args, call.Stdin, call.Stdout, call.Stderr = rest, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
		return c.Run(cmd.Context(), call)
	}
	cmd := &cobra.Command{
		Use: strings.TrimSpace(c.Name[strings.LastIndex(c.Name, " ")+1:] + " " + c.Args), Short: c.Summary, Long: fill(c.Doc),
		Args: cobra.ArbitraryArgs, ValidArgsFunction: completion(c.ArgWords), RunE: run,
	}
	cmd.Flags().SortFlags = false
	var names []string
	for i := range c.Flags {
		f := &c.Flags[i]
		names = append(names, f.Name)
		flag := cmd.Flags().VarPF(&value{f, call}, f.Name, f.Letter, f.text())
		if f.Value == "" {
			flag.NoOptDefVal = "true"
		} else if f.Words != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, completion(f.Words)) // it fails for an unknown flag, and for a second function
		}
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		flag, unknown := errors.AsType[*pflag.NotExistError](err)
		help, _ := cmd.Flags().GetBool("help")
		switch {
		case help && slices.ContainsFunc(args, func(s string) bool { return s == "--help" || s == "-help" || s == "-h" }):
			return pflag.ErrHelp
		case !unknown:
			if lacks, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
				name := lacks.GetFlag().Name
				i := slices.IndexFunc(c.Flags, func(f Flag) bool { return f.Name == name })
				err = fmt.Errorf("--%[1]s: expected a value: --%[1]s %[2]s", name, c.Flags[i].Value)
			}
			return &UsageError{errors.Join(call.Faults, err)}
		}
		name := "--" + flag.GetSpecifiedName()
		if letters := flag.GetSpecifiedShortnames(); letters != "" {
			if help {
				letters = "h" + letters
			}
			name, _, _ = strings.Cut("-"+letters, "=") // the value may be a secret
		}
		err = fmt.Errorf("unknown flag %s%s", name, meant("; did you mean --%s", strings.Trim(name, "-"), names))
		if c.KeepFaults { // read the arguments after the flag, too
			clear(call.Values)
			call.Faults, cmd.FParseErrWhitelist.UnknownFlags = nil, true
			_, rest, _ := cmd.Root().Find(args) // cobra has found it before without error
			if cmd.ParseFlags(rest) == nil {
				call.Faults = errors.Join(err, call.Faults)
				return run(cmd, cmd.Flags().Args())
			}
		}
		return &UsageError{errors.Join(err, call.Faults)}
	})
	return cmd
}

// completion completes words, or files if there are none.
func completion(words []string) cobra.CompletionFunc {
	if words == nil {
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// A value is the value of a flag in a call.
type value struct {
	flag *Flag
	call *Call
}

// Set implements [pflag.Value]. It adds faults to the call, so that later flags are read, too.
func (v *value) Set(text string) error {
	name := v.flag.Name
	fault := func(format string, args ...any) {
		v.call.Faults = errors.Join(v.call.Faults, fmt.Errorf(format, args...))
	}
	if v.flag.Value == "" {
		on, err := strconv.ParseBool(text)
		if err != nil {
			fault("--%s: expected no value, or true or false, got %q", name, text)
		}
		if !on {
			return nil
		}
		text = ""
	}
	if v.call.Given(name) && !v.flag.Repeat {
		fault("--%s: given twice; it has one value", name)
	}
	v.call.Values[name] = append(v.call.Values[name], text)
	return nil
}

// Type returns the name for the value, as in help.
func (v *value) Type() string { return cmp.Or(v.flag.Value, "bool") }

func (v *value) String() string { return "" }

// Shells are the shells that [Program.Completion] supports.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

// Completion writes the completion script of a shell. It is an error if the shell is none of
// [Shells].
func (p *Program) Completion(w io.Writer, shell string) error {
	switch root := p.root(nil); shell {
	case "bash":
		return root.GenBashCompletionV2(w, true)
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	case "powershell":
		return root.GenPowerShellCompletionWithDesc(w)
	}
	return Usagef("expected one of %s, got %q", strings.Join(Shells, ", "), shell)
}
