// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0
/** Problem is a fault of a call. A denial is none: it is an answer. */
export class Problem extends Error {
    problem;
    constructor(problem) {
        super(`${problem.status} ${problem.field ?? ""} ${problem.detail}`);
        this.problem = problem;
    }
}
/** Client calls the API of sluice. */
export class Client {
    url;
    token;
    constructor(url, token) {
        this.url = url;
        this.token = token;
    }
    async call(path, body, key) {
        const headers = { "Content-Type": "application/json" };
        if (this.token)
            headers["Authorization"] = `Bearer ${this.token}`;
        if (key)
            headers["Idempotency-Key"] = key;
        return this.send(path, { method: "POST", headers, body: JSON.stringify(body) });
    }
    /** rules lists the rules that the token may use. */
    async rules() {
        const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {};
        return this.send("/v1/rules", { headers });
    }
    async send(path, init) {
        const response = await fetch(this.url + path, init);
        const document = await response.json();
        if (!response.ok)
            throw new Problem(document);
        return document;
    }
}
