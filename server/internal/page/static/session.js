// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

import { ask } from "./api.js";
import { byId, say } from "./dom.js";

// Session logs in and out. The token is sent once and not kept: a cookie that scripts
// cannot read stands for it.
export class Session {
  constructor(changed) {
    this.changed = changed;
    this.dialog = byId("login");
    this.token = byId("token");
    this.fault = this.dialog.querySelector(".fault");
    this.button = byId("log");
    this.button.addEventListener("click", () => (this.until ? this.end() : this.open()));
    this.dialog.querySelector("[value=cancel]").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("close", () => {
      this.token.value = "";
    });
    this.dialog.querySelector("form").addEventListener("submit", (e) => {
      e.preventDefault();
      this.begin();
    });
  }

  // set applies the answer of GET /v1/session.
  set(s) {
    this.until = s.until;
    this.button.hidden = !s.needed;
    say(this.button, s.until ? "Log out" : "Log in");
  }

  open() {
    say(this.fault, "");
    if (!this.dialog.open) this.dialog.showModal();
  }

  async begin() {
    const token = this.token.value.trim();
    this.token.value = "";
    say(this.fault, "");
    try {
      this.set(await ask("POST", "v1/session", { token }));
      this.dialog.close();
      this.changed();
    } catch (e) {
      say(this.fault, e.message);
      this.token.focus();
    }
  }

  async end() {
    try {
      this.set(await ask("DELETE", "v1/session"));
    } finally {
      this.changed();
    }
  }
}
