// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

import { Client, Problem } from "./client.js";

const api = new Client(process.env["SLUICE_URL"] ?? "http://127.0.0.1:8081", process.env["SLUICE_TOKEN"]);

const { rules } = await api.rules();
console.log("rules:", rules.map((r) => r.name).join(" "));

for (let i = 1; i <= 3; i++) {
  const a = await api.call("/v1/take", { rule: "login", path: "/login", client: "192.0.2.7" });
  console.log(`login ${i}: ${a.allowed ? `${a.remaining} left` : `denied by ${a.limit}`}`);
}

const user = { rule: "llm", headers: { "X-User": ["ada"] } };
const held = await api.call("/v1/hold", { ...user, cost: 500, ttl_ms: 60_000 });
const settled = await api.call("/v1/settle", { ...user, cost: 120, id: held.id ?? "" });
console.log(`held ${held.cost}, used ${settled.spent}`);

for (const _ of ["sent", "sent again"]) await api.call("/v1/take", { ...user, cost: 30 }, "order-17");
const batch = await api.call("/v1/peek", { requests: [user, { ...user, cost: 900 }] });
console.log(`left: ${batch.results[0]?.remaining}, all allowed: ${batch.allowed}`);

try {
  await api.call("/v1/take", { rule: "login", cost: -1 });
} catch (fault) {
  if (!(fault instanceof Problem)) throw fault;
  console.log(`fault of ${fault.problem.field}: ${fault.problem.detail}`);
}
