// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"fmt"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata returns the request as dynamic metadata, with that of the limits that let it pass.
func (d *decision) metadata(r *pb.RateLimitResponse) *structpb.Struct {
	list := make([]any, 0, len(d.descriptors))
	for _, of := range d.request.GetDescriptors() {
		list = append(list, described(of))
	}
	fields := map[string]any{"domain": d.request.GetDomain(), "descriptors": list}
	if n := d.request.GetHitsAddend(); n != 0 {
		fields["hitsAddend"] = n
	}
	merged := make(map[string]any)
	for i := range d.descriptors {
		if k := &d.descriptors[i]; k.limit != nil && r.Statuses[i].GetCode() == pb.RateLimitResponse_OK {
			merge(merged, k.limit.Metadata)
		}
	}
	if len(merged) > 0 {
		fields["metadata"] = merged
	}
	s, err := structpb.NewStruct(fields)
	if err != nil { // a text is not UTF-8, which protobuf refuses in requests
		return nil
	}
	return s
}

// described returns a descriptor.
func described(of *commonpb.RateLimitDescriptor) map[string]any {
	entries := make([]any, 0, len(of.GetEntries()))
	for _, e := range of.GetEntries() {
		entries = append(entries, e.GetKey()+"="+e.GetValue())
	}
	fields := map[string]any{"entries": entries}
	if l := of.GetLimit(); l != nil {
		fields["limit"] = fmt.Sprintf("requests_per_unit:%d unit:%v", l.GetRequestsPerUnit(), l.GetUnit())
	}
	if own := of.GetHitsAddend(); own != nil {
		fields["hitsAddend"] = own.GetValue()
	}
	return fields
}

// merge adds what into lacks.
func merge(into, from map[string]any) {
	for key, value := range from {
		have, there := into[key]
		below, isMap := value.(map[string]any)
		switch haveBelow, both := have.(map[string]any); {
		case there && both && isMap:
			merge(haveBelow, below)
		case there:
		case isMap: // a copy, which may be merged into
			fresh := make(map[string]any, len(below))
			merge(fresh, below)
			into[key] = fresh
		default:
			into[key] = value
		}
	}
}
