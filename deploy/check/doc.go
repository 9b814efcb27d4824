// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package check reads what ../compose, ../kubernetes and ../helm have as Docker
// Compose, Kubernetes, the Prometheus operator and Helm do: by their own Go packages.
// It is a module of its own, as the product compiles none of them.
package check
