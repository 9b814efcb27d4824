-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Keeps a secret, unless there is one, and has it live on.
--
-- KEYS[1]  where it is kept
-- ARGV[1]  the secret
-- ARGV[2]  how long it lives, in ms
--
-- It returns the one that is kept.

local kept = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
if kept then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return kept or ARGV[1]
