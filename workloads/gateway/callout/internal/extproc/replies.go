package extproc

import (
	"maps"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	kind "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"gke-inference/gateway/callout/internal/openai"
)

// maxReplyBytes keeps each reply below 128 KB, the limit of Google's load balancer (Google Cloud,
// "Service Extensions quotas and limits").
const maxReplyBytes = 62_000

func requestHeaders(mutation *extproc.HeaderMutation) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extproc.HeadersResponse{Response: &extproc.CommonResponse{HeaderMutation: mutation}},
	}}
}

func responseHeaders(mutation *extproc.HeaderMutation) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseHeaders{
		ResponseHeaders: &extproc.HeadersResponse{Response: &extproc.CommonResponse{HeaderMutation: mutation}},
	}}
}

func requestTrailers() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestTrailers{
		RequestTrailers: &extproc.TrailersResponse{},
	}}
}

func responseTrailers() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseTrailers{
		ResponseTrailers: &extproc.TrailersResponse{},
	}}
}

func streamed(part []byte, isLast bool) *extproc.BodyResponse {
	return &extproc.BodyResponse{Response: &extproc.CommonResponse{BodyMutation: &extproc.BodyMutation{
		Mutation: &extproc.BodyMutation_StreamedResponse{
			StreamedResponse: &extproc.StreamedBodyResponse{Body: part, EndOfStream: isLast},
		},
	}}}
}

// eachPart calls send with parts of a body. The last part ends the stream if isEnd is set.
func eachPart(body []byte, isEnd bool, send func(part *extproc.BodyResponse) error) error {
	for len(body) > maxReplyBytes {
		if err := send(streamed(body[:maxReplyBytes], false)); err != nil {
			return err
		}
		body = body[maxReplyBytes:]
	}
	if len(body) == 0 && !isEnd {
		return nil
	}
	return send(streamed(body, isEnd))
}

// refusal responds to the client in place of an engine. Its details start with `gke_inference_callout`,
// for access logs and for gateways that replace error responses.
func refusal(fault *openai.Error, more map[string]string) *extproc.ProcessingResponse {
	set := map[string]string{"content-type": "application/json"}
	maps.Copy(set, more)
	maps.Copy(set, fault.Headers)
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ImmediateResponse{
		ImmediateResponse: &extproc.ImmediateResponse{
			Status:  &kind.HttpStatus{Code: kind.StatusCode(fault.Status)},
			Headers: &extproc.HeaderMutation{SetHeaders: options(set)},
			Body:    fault.Body(),
			Details: "gke_inference_callout_" + fault.Code,
		},
	}}
}
