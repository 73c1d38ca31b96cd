package texts

import "gke-inference/gateway/internal/paths"

// Fields that each path accepts while a guard reads its requests or responses. An engine could read any
// other field as a part of the prompt, or repeat an answer in it.
var (
	sampling = []string{
		"model", "stream", "stream_options", "temperature", "top_p", "top_k", "min_p", "seed", "stop", "user", "n",
		"best_of", "max_tokens", "max_completion_tokens", "max_output_tokens", "min_tokens", "presence_penalty",
		"frequency_penalty", "repetition_penalty", "length_penalty", "logit_bias", "ignore_eos", "skip_special_tokens",
		"spaces_between_special_tokens", "include_stop_str_in_output", "stop_token_ids", "allowed_token_ids", "bad_words",
		"truncate_prompt_tokens", "truncation_side", "add_special_tokens", "response_format", "structured_outputs",
		"guided_json", "guided_regex", "guided_choice", "guided_grammar", "thinking_token_budget", "stream_interval",
		"logprobs", "top_logprobs", "prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids", "cache_salt",
	}
	messages = []string{
		"messages", "system", "tools", "tool_choice", "stop_sequences", "thinking", "metadata", "output_config",
		"chat_template_kwargs", "cache_control", "context_management", "service_tier",
	}
	common = []string{"model", "user", "stream", "truncate_prompt_tokens", "truncation_side", "add_special_tokens", "cache_salt"}

	accepted = map[string]map[string]bool{
		paths.Chats: set(sampling, []string{
			"messages", "tools", "tool_choice", "functions", "function_call", "parallel_tool_calls", "reasoning_effort",
			"include_reasoning", "verbosity", "documents", "chat_template_kwargs", "add_generation_prompt",
			"continue_final_message", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
			"modalities",
		}),
		paths.Completions: set(sampling, []string{"prompt", "suffix", "echo"}),
		paths.Responses: set(sampling, []string{
			"input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "max_tool_calls", "reasoning", "text",
			"include", "truncation", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
		}),
		paths.Messages:    set(sampling, messages),
		paths.CountTokens: set(common, messages),
		paths.Embeddings: set(common, []string{
			"input", "messages", "dimensions", "encoding_format", "chat_template_kwargs", "add_generation_prompt",
			"continue_final_message", "normalize", "use_activation",
		}),
		paths.Rerank: set(common, []string{
			"query", "documents", "top_n", "return_documents", "max_tokens_per_doc", "instruction", "chat_template_kwargs",
		}),
		paths.Score: set(common, []string{
			"text_1", "text_2", "queries", "documents", "items", "data_1", "data_2", "instruction", "chat_template_kwargs",
		}),
		paths.Images: set(common, drawing),
		paths.Edits:  set(common, drawing, editing),
		paths.Videos: set(common, drawing, []string{"num_frames", "fps", "seconds", "duration"}),
	}
	editing = []string{"images", "mask", "strength", "partial_images"}
	drawing = []string{
		"prompt", "negative_prompt", "n", "size", "width", "height", "seed", "steps", "num_inference_steps", "quality", "style",
		"guidance_scale", "response_format", "output_format", "background", "moderation", "output_compression",
	}
)

// copies are fields that make an engine repeat its answer in a form that no guard can read. They are
// accepted if no guard reads answers.
var copies = set([]string{
	"logprobs", "top_logprobs", "prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids", "echo",
})

// unreadable are fields, at any depth of a request, whose content becomes a part of the prompt in a form
// that no guard can read.
var unreadable = set([]string{"prompt_embeds", "image_embeds", "audio_embeds", "encrypted_content", "image_pil"})

// mediaOfRequests and mediaOfAnswers are the places of images, recordings and videos.
var (
	mediaOfRequests = set([]string{
		"messages/content/image_url", "messages/content/image_url/url", "messages/content/audio_url",
		"messages/content/audio_url/url", "messages/content/video_url", "messages/content/video_url/url",
		"messages/content/input_audio/data", "messages/content/source/data", "messages/content/content/source/data",
		"input/image_url", "input/content/image_url", "input/output/image_url",
		"images", "images/image_url", "mask", "mask/image_url",
	})
	mediaOfAnswers = set([]string{"data/b64_json", "data/url", "choices/message/audio/data"})
)

// roles are those that the messages of each path can have. Templates write them into the prompt.
var roles = map[string]map[string]bool{
	paths.Chats:       set([]string{"system", "developer", "user", "assistant", "tool", "function"}),
	paths.Responses:   set([]string{"system", "developer", "user", "assistant"}),
	paths.Messages:    set([]string{"system", "user", "assistant"}),
	paths.CountTokens: set([]string{"system", "user", "assistant"}),
	paths.Embeddings:  set([]string{"system", "developer", "user", "assistant"}),
}

// words are the values that are not read as texts, by their key. A template or an engine compares them.
var words = map[string]map[string]bool{
	"type": set([]string{
		"text", "input_text", "output_text", "image_url", "input_image", "input_audio", "audio_url", "video_url", "image",
		"base64", "url", "message", "function", "function_call", "function_call_output", "tool_use", "tool_result",
		"reasoning", "reasoning_text", "summary_text", "refusal", "thinking", "document", "json_object", "json_schema",
		"object", "string", "number", "integer", "boolean", "array", "null", "auto", "any", "tool", "none", "ephemeral",
		"custom", "enabled", "disabled", "adaptive", "redacted_thinking", "tool_reference", "tool_addition", "tool_removal",
		"tool_definition", "message_start", "message_delta", "message_stop", "content_block_start", "content_block_stop", "ping",
		"response.created", "response.in_progress", "response.completed", "response.incomplete", "response.queued",
		"response.output_item.added", "response.output_item.done", "response.content_part.added",
		"response.content_part.done", "response.output_text.done", "response.refusal.done",
		"response.function_call_arguments.done", "response.reasoning_text.done", "response.reasoning_part.added",
		"response.reasoning_part.done", "response.reasoning_summary_part.added", "response.reasoning_summary_part.done",
		"response.reasoning_summary_text.done",
	}),
	"detail":           set([]string{"auto", "low", "high"}),
	"format":           set([]string{"wav", "mp3", "flac", "ogg", "opus"}),
	"status":           set([]string{"completed", "in_progress", "incomplete", "failed"}),
	"media_type":       set([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}),
	"tool_choice":      set([]string{"auto", "none", "required", "any"}),
	"function_call":    set([]string{"auto", "none"}),
	"effort":           set([]string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}),
	"reasoning_effort": set([]string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}),
	"summary":          set([]string{"auto", "concise", "detailed"}),
	"verbosity":        set([]string{"low", "medium", "high"}),
	"service_tier":     set([]string{"auto", "default", "flex", "scale", "priority"}),
	"truncation":       set([]string{"auto", "disabled"}),
	"truncation_side":  set([]string{"left", "right"}),
	"encoding_format":  set([]string{"float", "base64"}),
	"response_format":  set([]string{"url", "b64_json"}),
	"modalities":       set([]string{"text"}),
	"include": set([]string{
		"message.input_image.image_url", "computer_call_output.output.image_url", "file_search_call.results",
	}),

	"role":   set([]string{"assistant"}),
	"object": set([]string{"chat.completion", "text_completion", "response", "list", "embedding", "score", "model"}),
	"finish_reason": set([]string{
		"stop", "length", "tool_calls", "content_filter", "function_call", "abort", "error", "repetition",
	}),
	"stop_reason": set([]string{"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause_turn"}),
}

// keys are the names that are not read as texts: those of the APIs and of JSON Schema.
var keys = set(sampling, common, drawing, editing, []string{
	"messages", "tools", "functions", "parallel_tool_calls", "include_reasoning", "documents", "chat_template_kwargs",
	"add_generation_prompt", "continue_final_message", "metadata", "store", "safety_identifier", "prompt_cache_key",
	"suffix", "echo", "input", "instructions", "max_tool_calls", "reasoning", "system", "stop_sequences", "thinking",
	"output_config", "dimensions", "query", "top_n", "return_documents", "text_1", "text_2", "queries", "items", "data_1",
	"data_2", "instruction", "include_usage", "continuous_usage_stats", "role", "content", "type", "text", "name",
	"image_url", "url", "input_audio", "data", "tool_calls", "id", "function", "arguments", "tool_call_id", "refusal",
	"reasoning_content", "audio", "video_url", "audio_url", "source", "signature", "output", "call_id", "title", "parameters",
	"description", "properties", "required", "enum", "const", "default", "anyOf", "oneOf", "allOf", "not",
	"additionalProperties", "$ref", "$defs", "$schema", "definitions", "minimum", "maximum", "minLength", "maxLength",
	"minItems", "maxItems", "uniqueItems", "pattern", "strict", "json_schema", "schema", "input_schema", "cache_control",
	"ttl", "is_error", "tool_use_id", "annotations", "json", "regex", "choice", "grammar", "budget_tokens",
	"enable_thinking", "generate_summary", "uuid", "context_management", "display", "disable_parallel_tool_use", "tool_name",
	"tool", "definition", "format", "service_tier",
}, answerKeys)

// answerKeys are further names of answers.
var answerKeys = []string{
	"choices", "index", "message", "usage", "created", "created_at", "completed_at", "system_fingerprint", "prompt_tokens",
	"completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details", "cached_tokens",
	"audio_tokens", "reasoning_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens", "input_tokens",
	"output_tokens", "input_tokens_details", "output_tokens_details", "cache_write_tokens", "input_tokens_per_turn",
	"cached_tokens_per_turn", "output_tokens_per_turn", "tool_output_tokens", "tool_output_tokens_per_turn",
	"cache_read_input_tokens", "cache_creation_input_tokens", "stop_sequence", "results", "document",
	"relevance_score", "score", "embedding", "multi_modal", "b64_json", "revised_prompt", "error", "incomplete_details",
	"reason", "previous_response_id", "conversation", "prompt", "background", "billing", "max_tool_calls", "item_id",
	"content_index", "output_index", "caller", "namespace", "phase", "async", "defer_loading", "allowed_callers",
	"output_schema", "moderation", "parsed", "context", "mode", "content_block", "delta", "response", "item", "part",
	"sequence_number", "summary_index",
}

// repeated are fields of an answer that repeat its texts in a form that no guard can read.
var repeated = set([]string{
	"logprobs", "prompt_logprobs", "token_ids", "prompt_token_ids", "tokens", "token_logprobs", "prompt_text",
	"encrypted_content", "kv_transfer_params", "ec_transfer_params", "routed_experts", "input_messages", "output_messages",
})

func set(lists ...[]string) map[string]bool {
	found := map[string]bool{}
	for _, names := range lists {
		for _, name := range names {
			found[name] = true
		}
	}
	return found
}
