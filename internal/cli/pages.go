// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
)

// Man returns the manual page, in roff's man macros.
func (p *Program) Man() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\nCOMMAND [flags]\n", strings.ToUpper(p.Name), p.Name, roff(strings.TrimPrefix(strings.TrimSuffix(p.Summary, "."), p.Name+" ")), p.Name)
	b.WriteString(".SH DESCRIPTION\n")
	roffParagraphs(&b, p.Doc)
	b.WriteString(".SH COMMANDS\n")
	for i := range p.Commands {
		c := &p.Commands[i]
		fmt.Fprintf(&b, ".SS %s\n%s.\n", roff(p.synopsis(c)), roff(c.Summary))
		if c.Doc != "" {
			b.WriteString(".PP\n")
			roffParagraphs(&b, c.Doc)
		}
		group := ""
		for j := range c.Flags {
			f := &c.Flags[j]
			if f.Group != "" && f.Group != group {
				group = f.Group
				b.WriteString(".PP\n" + roff(group) + "\n")
			}
			fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", roff(f.String()), roff(f.text()))
		}
	}
	fmt.Fprintf(&b, ".SH EXIT STATUS\n.TP\n.B %d\nall went well\n.TP\n.B %d\nsomething failed, or what was checked has faults\n.TP\n.B %d\nthe arguments are wrong\n", OK, Failed, Usage)
	return b.String()
}

// roffParagraphs writes a text with its lines that stay as they are.
func roffParagraphs(b *strings.Builder, text string) {
	kept := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if keep := strings.HasPrefix(line, "  "); keep != kept && line != "" {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[keep])
			kept = keep
		}
		if line == "" {
			line = ".PP"
			b.WriteString(line + "\n")
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	if kept {
		b.WriteString(".fi\n")
	}
}

// roff escapes what roff would read as its own.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
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
	fmt.Fprintf(&b, "\nThe exit code is %d if all went well, %d if something failed or has faults, and %d if the arguments are wrong.\n", OK, Failed, Usage)
	for i := range p.Commands {
		c := &p.Commands[i]
		fmt.Fprintf(&b, "\n## %s %s\n\n```text\n%s\n```\n", p.Name, c.Name, p.synopsis(c))
		if c.Doc != "" {
			b.WriteString("\n" + markdownParagraphs(c.Doc) + "\n")
		}
		writeFlagTable(&b, c.Flags)
	}
	return b.String()
}

func writeFlagTable(b *strings.Builder, flags []Flag) {
	group := ""
	for i := range flags {
		f := &flags[i]
		if i == 0 || f.Group != "" && f.Group != group {
			group = f.Group
			if group != "" {
				b.WriteString("\n" + group + "\n")
			}
			b.WriteString("\n| flag | meaning |\n|---|---|\n")
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", f.String(), strings.ReplaceAll(f.text(), "|", `\|`))
	}
}

// markdownParagraphs puts lines that stay as they are into blocks.
func markdownParagraphs(text string) string {
	var out []string
	block := false
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		line = strings.TrimRight(line, "\n")
		if keep := strings.HasPrefix(line, "  "); keep != block && line != "" {
			if block {
				out = append(out, "```")
				if line != "" {
					out = append(out, "")
				}
			} else {
				out = append(out, "```text")
			}
			block = keep
		}
		out = append(out, strings.TrimPrefix(line, "  "))
	}
	if block {
		out = append(out, "```")
	}
	return strings.Join(out, "\n")
}
