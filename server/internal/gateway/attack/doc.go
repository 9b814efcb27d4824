// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package attack holds tests only. They start the program with an upstream that records the
// requests that reach it, and send attacks; each line of a table is one attack. An attack
// succeeds by its harm: a request processed beyond a limit, a wrong address, a client that is
// not served, or unbounded memory or logs.
//
//	attack                            where
//	addresses in forwarded fields     TestForwarded; internal/clientip, gateway TestOrigin
//	spellings of paths                TestPaths; policy TestRequestTargets, TestMatch
//	spellings of hosts                TestHosts; internal/wire TestHost
//	spellings of cookies              TestCookies; internal/wire TestCookieSpellings
//	queries that cannot be read       gateway TestQueries, TestSpaceInQuery
//	smuggled requests                 TestSmuggling, TestSmugglingHTTP2; gateway TestUpgrades
//	tokens that are forged            TestTokens; server/token TestClaims
//	responses to other requests       gateway TestSoak
//	floods, of frames and of bytes    TestFloods
//	crowds, of what is kept           TestMemory; gateway TestMemory
//	floods of keys                    server/cmd/sluice TestFloodFreesNoLockedKey
//	failures that fill the log        TestLogs; server/cmd/sluice TestServerLog, TestRefusedHeaders
//	clients that leave                TestHangUps; gateway/guard TestHangUpIsSeen
//	files that are bombs              TestFilesThatAreBombs; config TestOddFiles, FuzzParse
//	kills while state is written      TestKillsWhileStateIsWritten; server/cmd/sluice TestStateThatCannotBe
//	kills while overrides are written TestKillsWhileOverridesAreWritten; server/admin TestBadFile
//	stops under load                  TestStopUnderLoad; server/cmd/sluice TestDrainLosesNothing, TestSignals
//	reloads under load                TestReloadsUnderLoad; server/cmd/sluice TestLiveChange
//	the admin address by other names  TestAdminHosts; server/admin TestMisdirected
//
// Known limits: a slot in flight is freed when its client leaves, while the upstream still
// works; and a cost stated by the response remains the estimate if the response was not seen.
package attack
