// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Asks sluice by the Redis protocol, with node-redis.
const { createClient } = require("redis");

async function main() {
  const client = createClient({ url: "redis://" + process.argv[2] });
  await client.connect();
  const throttle = ["CL.THROTTLE", "mail:42", "2", "3", "3600"];
  const [limited, , remaining] = await client.sendCommand(throttle);
  console.log(`node: limited ${limited}, ${remaining} left`);

  const take = ["SLUICE.TAKE", "llm", "ada", "100"];
  // Commands that are sent together are decided in one batch.
  for (const d of await Promise.all([client.sendCommand(take), client.sendCommand(take)])) {
    console.log(`node: ${d[5]} by ${d[6]}, ${d[1]} left`);
  }
  const [now, , , retryAfter] = await client.sendCommand(throttle);
  console.log(`node: limited ${now}, again in ${Math.ceil(retryAfter / 60)} minutes`);
  await client.quit();
}

main();
