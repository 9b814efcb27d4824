-- SPDX-FileCopyrightText: The sluice authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Takes of several keys with the same arguments. The function take, from the file before,
-- decides each. The reply is the list of the takes' replies. A take that fails has written
-- nothing, as its last command is the one that writes. The list ends before it: that take
-- and those after it get calls of their own, which return the error.

local replies = {}
for i = 1, #KEYS do
	local ok, reply = pcall(take, KEYS[i])
	if not ok then
		break
	end
	replies[i] = reply
end
return replies
