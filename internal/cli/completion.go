// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Shells are those that [Program.Completion] knows.
var Shells = []string{"bash", "zsh", "fish"}

// Completion returns the script by which a shell completes the program's commands,
// flags and words. Where there are no words it completes files. It is empty if the shell
// is none of [Shells].
func (p *Program) Completion(shell string) string {
	switch shell {
	case "bash":
		return p.bash()
	case "zsh":
		return p.zsh()
	case "fish":
		return p.fish()
	}
	return ""
}

// first returns the first words of all commands with what they do.
func (p *Program) first() (words, docs []string) {
	for i := range p.Commands {
		word, _, more := strings.Cut(p.Commands[i].Name, " ")
		if slices.Contains(words, word) {
			continue
		}
		doc := p.Commands[i].Summary
		if more {
			doc = strings.Join(p.second(word), ", ")
		}
		words, docs = append(words, word), append(docs, doc)
	}
	return append(words, "help"), append(docs, "show the commands, or the flags of one")
}

// switchOf writes the branches of a shell's case by the command.
func (p *Program) switchOf(b *strings.Builder, branch func(c *Command) string) {
	b.WriteString("    case \"$command\" in\n")
	for i := range p.Commands {
		if text := branch(&p.Commands[i]); text != "" {
			fmt.Fprintf(b, "    %q) %s ;;\n", p.Commands[i].Name, text)
		}
	}
	b.WriteString("    esac\n")
}

// words returns the branches for values, by the command and the flag before.
func (p *Program) valueCases(b *strings.Builder, complete func(words []string) string) {
	b.WriteString("    case \"$command $prev\" in\n")
	for i := range p.Commands {
		c := &p.Commands[i]
		for j := range c.Flags {
			if f := &c.Flags[j]; f.Value != "" {
				fmt.Fprintf(b, "    %q) %s; return ;;\n", c.Name+" --"+f.Name, complete(f.Words))
			}
		}
	}
	b.WriteString("    esac\n")
}

func (p *Program) bash() string {
	var b strings.Builder
	words, _ := p.first()
	fmt.Fprintf(&b, `# bash completion of %[1]s: source <(%[1]s completion bash)
_%[1]s() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}" flags=
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W %[2]q -- "$cur"))
        return
    fi
`, p.Name, strings.Join(words, " "))
	reply := func(words []string) string {
		if words == nil {
			return ":"
		}
		return fmt.Sprintf(`COMPREPLY=($(compgen -W %q -- "$cur"))`, strings.Join(words, " "))
	}
	p.subcommands(&b, words, "[[ $COMP_CWORD -eq 2 ]]", `command="$command ${COMP_WORDS[2]}"`, func(_ string, words []string) string { return reply(words) })
	p.valueCases(&b, reply)
	b.WriteString("    if [[ $cur == -* ]]; then\n")
	p.switchOf(&b, func(c *Command) string { return fmt.Sprintf("flags=%q", strings.Join(flagsOf(c), " ")) })
	b.WriteString("        COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n        return\n    fi\n")
	p.switchOf(&b, func(c *Command) string {
		if c.ArgWords == nil {
			return ""
		}
		return reply(c.ArgWords)
	})
	fmt.Fprintf(&b, "}\ncomplete -o default -F _%[1]s %[1]s\n", p.Name)
	return b.String()
}

// subcommands writes what completes the second words, and joins them to the command.
func (p *Program) subcommands(b *strings.Builder, firsts []string, second, join string, complete func(first string, words []string) string) {
	b.WriteString("    case \"$command\" in\n")
	for _, first := range firsts {
		if words := p.second(first); len(words) > 0 {
			fmt.Fprintf(b, "    %s) if %s; then %s; return; fi; %s ;;\n", first, second, complete(first, words), join)
		}
	}
	b.WriteString("    esac\n")
}

func flagsOf(c *Command) []string {
	names := []string{"--help"}
	for i := range c.Flags {
		names = append(names, "--"+c.Flags[i].Name)
	}
	return names
}

func (p *Program) zsh() string {
	var b strings.Builder
	words, docs := p.first()
	fmt.Fprintf(&b, `#compdef %[1]s
# zsh completion of %[1]s: source <(%[1]s completion zsh)
_%[1]s() {
    local command=$words[2] prev=$words[CURRENT-1]
    local -a list
    if (( CURRENT == 2 )); then
        list=(%[2]s)
        _describe command list
        return
    fi
`, p.Name, described(words, docs))
	add := func(words []string) string {
		if words == nil {
			return "_files"
		}
		return "compadd -- " + strings.Join(words, " ")
	}
	p.subcommands(&b, words, "(( CURRENT == 3 ))", `command="$command $words[3]"`, func(_ string, words []string) string { return add(words) })
	p.valueCases(&b, add)
	b.WriteString("    if [[ $words[CURRENT] == -* ]]; then\n")
	p.switchOf(&b, func(c *Command) string {
		names, docs := []string{"--help"}, []string{"show this command's help"}
		for i := range c.Flags {
			names, docs = append(names, "--"+c.Flags[i].Name), append(docs, c.Flags[i].Doc)
		}
		return "list=(" + described(names, docs) + ")"
	})
	b.WriteString("        _describe flag list\n        return\n    fi\n")
	p.switchOf(&b, func(c *Command) string { return add(c.ArgWords) })
	fmt.Fprintf(&b, "}\nif [[ \"$funcstack[1]\" == _%[1]s ]]; then\n    _%[1]s \"$@\"\nelse\n    compdef _%[1]s %[1]s\nfi\n", p.Name)
	return b.String()
}

// described are words with what they mean, as zsh has them.
func described(words, docs []string) string {
	all := make([]string, len(words))
	for i := range words {
		all[i] = single(strings.ReplaceAll(words[i], ":", `\:`) + ":" + docs[i])
	}
	return strings.Join(all, " ")
}

// single quotes a text for a shell.
func single(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func (p *Program) fish() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# fish completion of %[1]s: %[1]s completion fish | source\n", p.Name)
	line := func(when, rest string, args ...any) {
		fmt.Fprintf(&b, "complete -c %s -n %s %s\n", p.Name, fishQuote(when), fmt.Sprintf(rest, args...))
	}
	words, docs := p.first()
	for i, w := range words {
		line("__fish_use_subcommand", "-f -a %s -d %s", w, fishQuote(docs[i]))
		if second := p.second(w); len(second) > 0 {
			line("__fish_seen_subcommand_from "+w+"; and not __fish_seen_subcommand_from "+strings.Join(second, " "), "-f -a %s", fishQuote(strings.Join(second, " ")))
		}
	}
	for i := range p.Commands {
		c := &p.Commands[i]
		when := "__fish_seen_subcommand_from " + strings.ReplaceAll(c.Name, " ", "; and __fish_seen_subcommand_from ")
		for j := range c.Flags {
			f := &c.Flags[j]
			value := ""
			switch {
			case f.Words != nil:
				value = " -x -a " + fishQuote(strings.Join(f.Words, " "))
			case f.Value != "":
				value = " -r"
			}
			line(when, "-l %s%s -d %s", f.Name, value, fishQuote(f.Doc))
		}
		if c.ArgWords != nil {
			line(when, "-f -a %s", fishQuote(strings.Join(c.ArgWords, " ")))
		}
	}
	return b.String()
}

func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
