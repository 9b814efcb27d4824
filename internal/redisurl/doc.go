// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package redisurl reads the URL of a store's servers, one line of these forms:
//
//	redis://[USER@]HOST[:PORT][/DATABASE]
//	redis-sentinel://[USER@]HOST[:PORT],…/MASTER[/DATABASE]
//	redis-cluster://[USER@]HOST[:PORT],…
//
// and the same with rediss, rediss-sentinel and rediss-cluster for TLS. The query may hold
// these parameters:
//
//	password_file=FILE            the user's password
//	ca_file=FILE                  the authorities of the server's certificate
//	cert_file=FILE, key_file=FILE this client's own certificate
//	sentinel_user=NAME            the user at the sentinels
//	sentinel_password_file=FILE   the password there
//	prefix=TEXT                   begins the name of every key
//	secret_file=FILE              names keys by keyed hashes, under this secret
//	timeout=DURATION              how long a decision may wait, 1ms to 1s
//
// User and password may also come from the variables [UserVariable] and [PasswordVariable].
// Files are read when a store is opened; without sentinels, password_file is read again for
// each new connection. A line that others can see must not contain a password: flags and files
// end up in process lists, shell histories and logs. Such a line may be
//
//	env:NAME
//
// for a URL in that variable. That URL may hold a password, as in redis://USER:PASSWORD@HOST,
// and USER may be missing.
package redisurl
