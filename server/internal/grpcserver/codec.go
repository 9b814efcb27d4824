// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// codec reads messages whose texts are not UTF-8, which protobuf refuses. Envoy sends header
// fields as its clients have sent them, and lets a client pass whose request is refused.
type codec struct{ encoding.CodecV2 }

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, into any) error {
	err := c.CodecV2.Unmarshal(data, into)
	m, ok := into.(proto.Message)
	if err == nil || !ok {
		return err
	}
	return proto.Unmarshal(valid(data.Materialize(), m.ProtoReflect().Descriptor(), maxDepth), m)
}

// maxDepth is how deep messages are in each other whose texts may not be UTF-8.
const maxDepth = 8

// valid returns a message with U+FFFD in place of bytes that are not UTF-8. It leaves other
// faults as they are.
func valid(data []byte, of protoreflect.MessageDescriptor, depth int) (clean []byte) {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(number, kind, data[n:])
		if size < 0 {
			break
		}
		field := of.Fields().ByNumber(number)
		value, _ := protowire.ConsumeBytes(data[n:])
		switch {
		case field == nil || kind != protowire.BytesType:
			clean = append(clean, data[:n+size]...)
		case field.Kind() == protoreflect.StringKind:
			clean = protowire.AppendString(append(clean, data[:n]...), strings.ToValidUTF8(string(value), string(utf8.RuneError)))
		case field.Kind() == protoreflect.MessageKind && depth > 1:
			clean = protowire.AppendBytes(append(clean, data[:n]...), valid(value, field.Message(), depth-1))
		default:
			clean = append(clean, data[:n+size]...)
		}
		data = data[n+size:]
	}
	return append(clean, data...)
}
