// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// All data is set as text: names, keys and hosts come from strangers.

// el returns an element. Its children are elements or texts; null and false are left
// out.
export function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false).map((c) => (c instanceof Node ? c : String(c))));
  return e;
}

export const byId = (id) => document.getElementById(id);

// say sets a text if it differs, so that screen readers announce changes only.
export function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// fill replaces the children of e. A child that is equal to the previous one stays, and
// keeps the focus.
export function fill(e, ...children) {
  const next = [...el("div", null, ...children).childNodes];
  next.forEach((child, i) => {
    const old = e.childNodes[i];
    if (!old) e.append(child);
    else if (!old.isEqualNode(child)) old.replaceWith(child);
  });
  while (e.childNodes.length > next.length) e.lastChild.remove();
}

// pairs returns a list of terms, each with a text or an element.
export function pairs(list) {
  return el("dl", { class: "pairs" }, list.filter(Boolean).flatMap(([term, value, kind]) => [el("dt", null, term), el("dd", { class: kind }, value)]));
}

// table returns a table with a caption, heads and rows of texts, which can be scrolled,
// also by keys. The first cell of a row is its head; numbers are aligned right.
export function table(caption, heads, rows) {
  const kind = (i) => (i > 0 && rows.every((r) => typeof r[i] === "number" || /^[\d.,<%–-]*( \S+)?$/.test(String(r[i].textContent ?? r[i]))) ? "n" : null);
  return el("div", { class: "scroll", role: "group", "aria-label": caption, tabindex: "0" }, el("table", null,
    el("caption", { class: "unseen" }, caption),
    el("thead", null, el("tr", null, heads.map((h, i) => el("th", { scope: "col", class: kind(i) }, h)))),
    el("tbody", null, rows.map((r) => el("tr", null, r.map((c, i) => (i === 0 ? el("th", { scope: "row" }, c) : el("td", { class: kind(i) }, c))))))));
}

// field returns an input of a form with its label.
let fields = 0;
export function field(label, input, kind) {
  input.id ||= "field-" + ++fields;
  return el("div", { class: "field" + (kind ? " " + kind : "") }, el("label", { for: input.id }, label), input);
}
