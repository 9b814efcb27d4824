// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

import type { components, operations, paths } from "./api.js";

type Schemas = components["schemas"];
export type Answer = Schemas["Answer"];
export type Answers = Schemas["Answers"];

/** The calls that have a body, by path, such as /v1/take. */
type Calls = { [P in keyof paths as paths[P] extends { post: { requestBody: unknown } } ? P : never]: paths[P] };
type Body<P extends keyof Calls> = Calls[P] extends { post: { requestBody: { content: { "application/json": infer B } } } } ? B : never;
type Batch = { requests: unknown[] };

/** Problem is a fault of a call. A denial is none: it is an answer. */
export class Problem extends Error {
  constructor(readonly problem: Schemas["Problem"]) {
    super(`${problem.status} ${problem.field ?? ""} ${problem.detail}`);
  }
}

/** Client calls the API of sluice. */
export class Client {
  constructor(readonly url: string, readonly token?: string) {}

  /** call makes a call with one request, or with a batch of them. */
  call<P extends keyof Calls>(path: P, body: Extract<Body<P>, Batch>, key?: string): Promise<Answers>;
  call<P extends keyof Calls>(path: P, body: Exclude<Body<P>, Batch>, key?: string): Promise<Answer>;
  async call(path: string, body: object, key?: string): Promise<Answer | Answers> {
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (this.token) headers["Authorization"] = `Bearer ${this.token}`;
    if (key) headers["Idempotency-Key"] = key;
    return this.send(path, { method: "POST", headers, body: JSON.stringify(body) }) as Promise<Answer | Answers>;
  }

  /** rules lists the rules that the token may use. */
  async rules(): Promise<operations["rules"]["responses"][200]["content"]["application/json"]> {
    const headers: Record<string, string> = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    return this.send("/v1/rules", { headers }) as Promise<Schemas["Rules"]>;
  }

  private async send(path: string, init: RequestInit): Promise<unknown> {
    const response = await fetch(this.url + path, init);
    const document = await response.json();
    if (!response.ok) throw new Problem(document as Schemas["Problem"]);
    return document;
  }
}
