package openai

import (
	"runtime"
	"strings"
	"testing"

	"gke-inference/gateway/internal/paths"
)

func conversation(t *testing.T, path, body string) uint64 {
	t.Helper()
	digest, has := Conversation(path, []byte(body))
	if !has {
		t.Fatalf("%s: no conversation", body)
	}
	return digest
}

func TestEachTurnOfAConversationHasTheSameDigest(t *testing.T) {
	for path, turns := range map[string][]string{
		paths.Chats: {
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}]}`,
			`{"messages": [{"content": "s", "role": "system"}, {"role":"user","content":"q"},
			  {"role":"assistant","content":"a"},{"role":"user","content":"other"}],"temperature":1}`,
		},
		paths.Messages: {
			`{"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]}]}`,
			`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"system":[{"type":"text","text":"s"}]}`,
		},
		paths.Responses: {
			`{"instructions":"s","input":[{"role":"user","content":"q"}]}`,
			`{"instructions":"s","input":[{"role":"user","content":"q"},{"type":"function_call","id":"1","arguments":"{}"}]}`,
			`{"instructions":"s","input":"q"}`,
		},
	} {
		for _, turn := range turns[1:] {
			if conversation(t, path, turns[0]) != conversation(t, path, turn) {
				t.Errorf("%s: another digest for %s", path, turn)
			}
		}
	}
}

func TestConversationsWithAnotherBeginningAreOthers(t *testing.T) {
	found := map[uint64]string{}
	for _, body := range []string{
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}]}`,
		`{"messages":[{"role":"system","content":"s2"},{"role":"user","content":"q"}]}`,
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q2"}]}`,
		`{"messages":[{"role":"system","content":"sq"},{"role":"user","content":""}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:1"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:2"}}]}]}`,
	} {
		digest := conversation(t, paths.Chats, body)
		if other, has := found[digest]; has {
			t.Errorf("%s has the digest of %s", body, other)
		}
		found[digest] = body
	}
}

func TestAConversationIsReadWhereItIs(t *testing.T) {
	picture := strings.Repeat("a", 8<<20) // holding.Hold counts no copy of it
	body := []byte(`{"messages":[{"role":"user","content":[{"image_url":{"url":"` + picture + `"}}]}]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, has := Conversation(paths.Chats, body)
	runtime.ReadMemStats(&after)
	if copied := after.TotalAlloc - before.TotalAlloc; !has || copied > 1<<20 {
		t.Errorf("has a conversation: %t; allocated %d bytes", has, copied)
	}
}

func TestRequestsWithoutAQuestionHaveNoConversation(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, one := range [][2]string{
		{paths.Embeddings, `{"messages":[{"role":"user","content":"q"}]}`},
		{paths.Completions, `{"prompt":"q"}`},
		{paths.Chats, `{"messages":[]}`},
		{paths.Chats, `{"messages":7}`},
		{paths.Chats, `{"messages":[7,"user",null,{"role":7},{"role":"system","content":"s"}]}`},
		{paths.Chats, `{"messages":[{"content":` + deep + `}]}`},
		{paths.Chats, ` []`},
		{paths.Responses, `{"input":null}`},
	} {
		if digest, has := Conversation(one[0], []byte(one[1])); has {
			t.Errorf("%s: got %d", one[1], digest)
		}
	}
}
