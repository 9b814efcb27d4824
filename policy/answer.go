// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

// Answer is an HTTP front's answer about a rule's limits in the operator's own
// words, such as those of an API that clients know already. Zero parts leave the
// front's answer unchanged.
//
// Its texts have placeholders. A placeholder stands for a value of the binding limit
// among the rule's or, with a limit's name, such as {hour.remaining}, of that limit.
// A Body has no placeholders with a name. The placeholders are:
//
//	{limit} {quota} {window}    units when full; units in a window; its seconds
//	{remaining} {used}          units; {used} is {limit} less {remaining}
//	{reset} {reset_unix}        seconds until the key is full again; the instant since 1970
//	{reset_date} {reset_time}   the instant: Wed, 06 Mar 2013 19:07:58 GMT; 2013-03-06T19:07:58Z
//	{retry_after}               seconds until the request fits, 0 if it passes
//	{retry_after_ms}            milliseconds
//	{rule} {name}               the rule; the limit as clients know it
//	{status} {detail}           in a Body: the status; the reason in words
//
// Seconds are whole and rounded up. Where the time is not known, or waiting would not
// help, a field with such a placeholder is left out; in a Body the placeholder is -1,
// or empty for an instant that is not a number. No placeholder holds a value that a
// client sent.
type Answer struct {
	// Status is the status of a denial: 400 to 599, or 200 with a Body for an API that denies
	// with it: clients that read only the status treat such a denial as a success.
	// Zero means the rule's status.
	Status int
	// ContentType is the type of Body. In JSON, XML and HTML {detail} is escaped; a
	// JSON Body must be JSON.
	ContentType string
	// Body is the body of a denial. Empty means the front's own body.
	Body string
	// Fields are set on every response to a request that the rule applies to, and
	// Denied on a denial by the rule, after the fields that the front sets by itself. A
	// front that passes responses on removes the fields of these names from them.
	Fields, Denied []AnswerField
	// Limits are the answers to denials by single limits, by their names. A zero part means
	// the part of the answer for all limits. They have no Fields and no Limits.
	Limits map[string]Answer
}

// AnswerField is a header field. It is written with the case of its Name.
type AnswerField struct{ Name, Value string }
