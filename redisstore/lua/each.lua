-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Takes of several keys with the same arguments: take, which is made by the file
-- before, decides each. It returns a list of what each would reply by itself. If one
-- fails it has written nothing, as what writes is its last command. It and those
-- after it are left to calls of their own, which say why: the list is shorter then.

local replies = {}
for i = 1, #KEYS do
	local ok, reply = pcall(take, KEYS[i])
	if not ok then
		break
	end
	replies[i] = reply
end
return replies
