-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- See algo/block.go. State: idle, the end of the window or the block; a, the denials;
-- b, its start.

local block = {}
kinds[6] = block

function block.new(key, head, s)
	local _, charge, window, full, debt, quota, horizon, length = unpack('>dddddddd', s)
	return {
		key = key, head = head, kind = block, charge = charge, window = window, full = full, debt = debt, quota = quota,
		horizon = horizon, idle = 0, a = 0, b = 0, reserved = false, cost = 0, held = 0, queues = 0, written = false, exists = false,
		swapped = false, since = 0, last = 0, length = length,
	}
end

function block.load(it, raw, pos)
	it.idle, it.a, it.b = unpack('>I7I7I7', raw, pos)
end

function block.save(it)
	set(it, it.head .. pack('>I7I7I7', it.idle, it.a, it.b))
end

function block.stepped(it)
	return it.b > now
end

function block.clamp(it)
	it.idle, it.b = it.idle - (it.b - now), now
end

function block.counted()
	return 0
end

function block.pending(it)
	return it.idle > 0 and it.a == 0
end

function block.earliest(it)
	return it.a == 0 and it.idle or now
end

function block.refund()
	return false
end

-- count counts a denied request under the blocks of each charge that another limit
-- denies. wait is the time from now until a limit has room.
function block.count(its, wait)
	local denied, blocked = {}, {}
	for _, it in ipairs(its) do
		if wait(it) > 0 then
			(it.kind == block and blocked or denied)[it.charge] = true
		end
	end
	for _, it in ipairs(its) do
		if it.kind == block and denied[it.charge] and not blocked[it.charge] then
			if it.idle == 0 or now - it.b >= it.window then
				it.idle, it.a, it.b = 0, 0, now
			end
			it.a = it.a + 1
			if it.a < it.quota then
				it.idle = max(it.idle, it.b + it.window)
			else
				it.idle, it.a, it.b = now + it.length, 0, now
			end
			it.written = true
		end
	end
end
