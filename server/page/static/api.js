// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Refused is an answer that is not as it should be, in the program's words. An error
// of another class means that there was no answer.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const patience = 8000; // ms for an answer

// ask returns the document that answers a request of the admin's API.
export async function ask(method, path, doc) {
  const response = await fetch(path, {
    method, cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(patience),
    headers: doc ? { "Content-Type": "application/json" } : {}, body: doc ? JSON.stringify(doc) : undefined,
  });
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    answer = { error: text.trim() || `the answer is ${response.status} and no document` };
    if (response.ok) throw new Refused(response.status, answer.error);
  }
  if (!response.ok) throw new Refused(response.status, answer.error ?? String(response.status));
  return answer;
}

// alive reports whether the program answers at all.
export async function alive() {
  try {
    return (await fetch("healthz", { cache: "no-store", signal: AbortSignal.timeout(4000) })).ok;
  } catch {
    return false;
  }
}

export const overview = () => ask("GET", "v1/overview");
export const overviewOf = (rule) => ask("GET", "v1/overview?rule=" + encodeURIComponent(rule));
export const session = () => ask("GET", "v1/session");
