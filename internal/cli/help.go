// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
)

const width = 80

// Help returns the page of all commands.
func (p *Program) Help() string {
	var b strings.Builder
	b.WriteString(p.Summary + "\n\n")
	p.writeCommands(&b, "")
	fmt.Fprintf(&b, "\n%s help COMMAND shows the flags of a command.\n", p.Name)
	if p.Doc != "" {
		b.WriteString("\n" + fill(p.Doc, "") + "\n")
	}
	return b.String()
}

// under returns the page of the commands whose first word is this, empty if there are
// none.
func (p *Program) under(first string) string {
	if len(p.second(first)) == 0 {
		return ""
	}
	var b strings.Builder
	p.writeCommands(&b, first+" ")
	fmt.Fprintf(&b, "\n%s help %s SUBCOMMAND shows the flags of one.\n", p.Name, first)
	return b.String()
}

func (p *Program) writeCommands(b *strings.Builder, prefix string) {
	widest := 0
	for i := range p.Commands {
		widest = max(widest, len(p.Commands[i].Name))
	}
	for i := range p.Commands {
		if c := &p.Commands[i]; strings.HasPrefix(c.Name, prefix) {
			fmt.Fprintf(b, "  %s %-*s  %s\n", p.Name, widest, c.Name, c.Summary)
		}
	}
}

// synopsis is how a command is written, in a line.
func (p *Program) synopsis(c *Command) string {
	text := p.Name + " " + c.Name
	if c.Args != "" {
		text += " " + c.Args
	}
	if len(c.Flags) > 0 {
		text += " [flags]"
	}
	return text
}

// CommandHelp returns the page of a command.
func (p *Program) CommandHelp(c *Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n  %s\n", p.Name+" "+c.Name, c.Summary, p.synopsis(c))
	if c.Doc != "" {
		b.WriteString("\n" + fill(c.Doc, "") + "\n")
	}
	group := ""
	for i := range c.Flags {
		f := &c.Flags[i]
		if i == 0 || f.Group != "" && f.Group != group {
			group = f.Group
			b.WriteString("\n")
			if group != "" {
				b.WriteString(fill(group, "") + "\n\n")
			}
		}
		head := "  " + f.String()
		body := fill(f.text(), "      ")
		if len(head) < 20 {
			body = fmt.Sprintf("%-22s", head) + strings.TrimLeft(fill(f.text(), strings.Repeat(" ", 22)), " ")
			b.WriteString(body + "\n")
			continue
		}
		b.WriteString(head + "\n" + body + "\n")
	}
	return b.String()
}

// String returns the flag as it is written.
func (f *Flag) String() string {
	if f.Value == "" {
		return "--" + f.Name
	}
	return "--" + f.Name + " " + f.Value
}

// text is what help says of the flag.
func (f *Flag) text() string {
	if f.Repeat {
		return f.Doc + "; repeatable"
	}
	return f.Doc
}

// fill breaks paragraphs into lines, each of which begins with an indent. Lines that
// begin with two spaces stay as they are.
func fill(text, indent string) string {
	var out []string
	line := ""
	flush := func() {
		if line != "" {
			out = append(out, indent+line)
			line = ""
		}
	}
	for raw := range strings.Lines(text) {
		raw = strings.TrimRight(raw, "\n")
		if raw == "" || strings.HasPrefix(raw, "  ") {
			flush()
			out = append(out, strings.TrimRight(indent+raw, " "))
			continue
		}
		for word := range strings.FieldsSeq(raw) {
			if line != "" && len(indent)+len(line)+1+len(word) > width {
				flush()
			}
			if line != "" {
				line += " "
			}
			line += word
		}
	}
	flush()
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}
