// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"slices"
	"strings"
)

// understood are the directives that this package reads.
var understood = strings.Fields(`server location limit_req limit_req_zone limit_req_status limit_req_dry_run limit_conn
	limit_conn_zone limit_conn_status limit_conn_dry_run set_real_ip_from real_ip_header real_ip_recursive include
	return rewrite break if internal try_files error_page listen server_name upstream map geo limit_rate limit_rate_after
	limit_req_log_level limit_conn_log_level`)

// without are the directives that change neither which requests are limited nor their keys, by
// name, or by prefix if they end in an underscore. For set this holds because a zone whose key
// it sets is not kept.
var without = strings.Fields(`access_log add_header add_trailer aio alias autoindex_ charset charset_types chunked_transfer_encoding
	client_body_ client_header_ client_max_body_size connection_pool_size default_type directio error_log etag expires
	gzip gzip_ http2_ if_modified_since ignore_invalid_headers index keepalive_ large_client_header_buffers lingering_ log_format
	log_not_found log_subrequest max_ranges msie_ open_file_cache open_file_cache_ output_buffers port_in_redirect postpone_output
	recursive_error_pages request_pool_size reset_timedout_connection resolver resolver_timeout rewrite_log root send_lowat
	send_timeout sendfile sendfile_max_chunk server_name_in_redirect server_names_hash_ server_tokens set ssl_ sub_filter
	sub_filter_ tcp_nodelay tcp_nopush types types_hash_ absolute_redirect uninitialized_variable_warn variables_hash_
	map_hash_ proxy_ fastcgi_ uwsgi_ scgi_ grpc_ autoindex brotli brotli_ http2 variables_hash_bucket_size`)

// harmless reports whether a directive changes nothing that rules depend on.
func harmless(name string) bool {
	return slices.ContainsFunc(without, func(w string) bool {
		return name == w || strings.HasSuffix(w, "_") && strings.HasPrefix(name, w)
	})
}

// unknown notes the unknown directives of a block and of the locations in it.
func (c *converter) unknown(list []*directive) {
	for _, d := range list {
		switch {
		case d.name == "location":
			c.unknown(d.block)
		case d.name == "limit_rate", d.name == "limit_rate_after":
			c.note(d, "%s: limits the bandwidth of one response; not kept", d.name)
		case strings.HasSuffix(d.name, "_log_level"):
			c.note(d, "%s: has no counterpart; not kept", d.name)
		case !harmless(d.name) && !slices.Contains(understood, d.name):
			c.note(d, "%s: is not known; not kept, and nginx may limit or refuse other requests for it", d.name)
		}
	}
}
