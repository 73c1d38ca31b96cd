// Package calls has what the external processors of the gateway share: headers, replies and a certificate.
package calls

import (
	"maps"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	kind "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"gke-inference/gateway/internal/apierror"
)

// MaxReplyBytes keeps each reply below 128 KB, the limit of Google's load balancer (Google Cloud,
// "Service Extensions quotas and limits").
const MaxReplyBytes = 62_000

// RequestHeaders forwards the headers of a request with changes.
func RequestHeaders(mutation *extproc.HeaderMutation) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extproc.HeadersResponse{Response: &extproc.CommonResponse{HeaderMutation: mutation}},
	}}
}

// ResponseHeaders forwards the headers of a response with changes.
func ResponseHeaders(mutation *extproc.HeaderMutation) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseHeaders{
		ResponseHeaders: &extproc.HeadersResponse{Response: &extproc.CommonResponse{HeaderMutation: mutation}},
	}}
}

// RequestTrailers forwards the trailers of a request.
func RequestTrailers() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestTrailers{
		RequestTrailers: &extproc.TrailersResponse{},
	}}
}

// ResponseTrailers forwards the trailers of a response.
func ResponseTrailers() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseTrailers{
		ResponseTrailers: &extproc.TrailersResponse{},
	}}
}

// Streamed forwards a part of a body.
func Streamed(part []byte, isLast bool) *extproc.BodyResponse {
	return &extproc.BodyResponse{Response: &extproc.CommonResponse{BodyMutation: &extproc.BodyMutation{
		Mutation: &extproc.BodyMutation_StreamedResponse{
			StreamedResponse: &extproc.StreamedBodyResponse{Body: part, EndOfStream: isLast},
		},
	}}}
}

// EachPart calls send with parts of a body. The last part ends the stream if isEnd is set.
func EachPart(body []byte, isEnd bool, send func(part *extproc.BodyResponse) error) error {
	for len(body) > MaxReplyBytes {
		if err := send(Streamed(body[:MaxReplyBytes], false)); err != nil {
			return err
		}
		body = body[MaxReplyBytes:]
	}
	if len(body) == 0 && !isEnd {
		return nil
	}
	return send(Streamed(body, isEnd))
}

// Refusal responds to the client in place of an engine. Its details start with `gke_inference_` and the
// name of the program, for access logs and for gateways that replace error responses.
func Refusal(program string, fault *apierror.Error, more map[string]string) *extproc.ProcessingResponse {
	set := map[string]string{"content-type": "application/json"}
	if fault.IsGRPC {
		set["content-type"] = "application/grpc"
	}
	maps.Copy(set, more)
	maps.Copy(set, fault.Headers)
	answer := &extproc.ImmediateResponse{
		Status:  &kind.HttpStatus{Code: kind.StatusCode(fault.Status)},
		Headers: &extproc.HeaderMutation{SetHeaders: Options(set)},
		Body:    fault.Body(),
		Details: "gke_inference_" + program + "_" + fault.Code,
	}
	if fault.IsGRPC {
		answer.GrpcStatus = &extproc.GrpcStatus{Status: uint32(fault.GRPCStatus())}
	}
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ImmediateResponse{ImmediateResponse: answer}}
}

// RoutedHeaders forwards the headers of a request with changes by which its route is chosen.
func RoutedHeaders(mutation *extproc.HeaderMutation) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extproc.HeadersResponse{Response: &extproc.CommonResponse{
			HeaderMutation: mutation, ClearRouteCache: true,
		}},
	}}
}
