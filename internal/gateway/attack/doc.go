// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package attack holds tests only: it starts the program, with an upstream that
// keeps what arrives, and sends what should not get by. Each table has one line
// for each attack. An attack is evaluated by its harm: a request that the upstream
// processes beyond a limit, a wrong address, a client that is not served, memory
// or a log without bound.
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
//	floods of keys                    cmd/sluice TestFloodFreesNoLockedKey
//	failures that fill the log        TestLogs; cmd/sluice TestServerLog, TestRefusedHeaders
//	clients that leave                TestHangUps; gateway/guard TestHangUpIsSeen
//	files that are bombs              TestFilesThatAreBombs; config TestOddFiles, FuzzParse
//	kills while state is written      TestKillsWhileStateIsWritten; cmd/sluice TestStateThatCannotBe
//	kills while overrides are written TestKillsWhileOverridesAreWritten; server/admin TestBadFile
//	stops under load                  TestStopUnderLoad; cmd/sluice TestDrainLosesNothing, TestSignals
//	reloads under load                TestReloadsUnderLoad; cmd/sluice TestLiveChange
//	the admin address by other names  TestAdminHosts; server/admin TestMisdirected
//
// Not held: a slot in flight is freed when its client leaves, while the upstream
// still works, and a cost that the response names is what was estimated if nobody
// saw the response.
package attack
