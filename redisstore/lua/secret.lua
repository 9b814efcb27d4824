-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Keeps a secret, unless there is one, and renews its time to live.
--
-- KEYS[1]  the key of the secret
-- ARGV[1]  the secret
-- ARGV[2]  the time to live, in ms
--
-- It returns the secret that is kept.

local kept = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
if kept then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return kept or ARGV[1]
