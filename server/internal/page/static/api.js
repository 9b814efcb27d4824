// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Unanswered is the error of a request without an answer.
export class Unanswered extends Error {
  constructor() {
    super("sluice does not answer");
  }
}

// Refused is the error of an answer that is not a success, with the program's text.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const patience = 8000; // ms for an answer

// ask returns the document that answers a request of the admin's API.
export async function ask(method, path, doc) {
  let response, text, answer;
  try {
    response = await fetch(path, {
      method, cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(patience),
      headers: doc ? { "Content-Type": "application/json" } : {}, body: doc ? JSON.stringify(doc) : undefined,
    });
    text = await response.text();
  } catch {
    throw new Unanswered();
  }
  try {
    answer = JSON.parse(text);
  } catch {
    answer = { error: text.trim() || `status ${response.status} without a document` };
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
export const fleet = () => ask("GET", "v1/fleet");
export const fleetOf = (rule) => ask("GET", "v1/fleet?rule=" + encodeURIComponent(rule));
export const session = () => ask("GET", "v1/session");
