// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package redisurl says in one line where a store's servers are:
//
//	redis://[USER@]HOST[:PORT][/DATABASE]
//	redis-sentinel://[USER@]HOST[:PORT],…/MASTER[/DATABASE]
//	redis-cluster://[USER@]HOST[:PORT],…
//
// and the same with rediss, rediss-sentinel and rediss-cluster for TLS. Behind
// a question mark may stand, joined by &,
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
// User and password may also come from the variables [UserVariable] and
// [PasswordVariable]. Files are read when a store is opened; password_file once
// more for each connection that is made, but with sentinels. A password is never
// part of a line that others can see: flags and files end up in process lists,
// shell histories and logs. Such a line may be
//
//	env:NAME
//
// which says that the URL is in that variable. There a password may be in it, as
// in redis://USER:PASSWORD@HOST, and USER may be missing.
package redisurl
