// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package certificate_test

import (
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/server/internal/gateway/certificate"
)

// A server that follows its certificate's files.
func ExampleLoad() {
	pair, err := certificate.Load("cert.pem", "key.pem", certificate.Options{
		OnChange: func(err error) { fmt.Println("certificate:", err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := &http.Server{Addr: "127.0.0.1:8443", TLSConfig: pair.Config()}
	fmt.Println(srv.ListenAndServeTLS("", ""))
	// Output:
	// certificate: stat cert.pem: no such file or directory
	// certificate: stat key.pem: no such file or directory
}
