package texts

import (
	"encoding/base64"

	"gke-inference/gateway/internal/forms"
	"gke-inference/gateway/internal/jsonwalk"
)

// magicBytes is how much of a file tells that it is an image.
const magicBytes = 18

// Form returns every text of a form, in order. It refuses fields that no guard can check, and files that
// are not images.
func Form(path string, form *forms.Form) ([]Text, *Refused) {
	var found []Text
	w := walk{}
	for _, part := range form.Parts {
		content := string(part.Content)
		switch {
		case part.IsFile:
			start := part.Content[:min(len(part.Content), magicBytes)]
			if !isMedia(base64.StdEncoding.EncodeToString(start)) {
				return nil, &Refused{part.Name, "must be an image: a guardrail of this model reads prompts."}
			}
		case !accepted[path][part.Name]:
			return nil, &Refused{part.Name, "must not be set: a guardrail of this model cannot read it."}
		case part.Name == "model": // a name of the configuration, or the request is refused
		case content == "" || forms.IsValue(part.Name, content) || w.isWord(part.Name, content):
		default:
			at := jsonwalk.Span{Start: part.Start, End: part.End}
			found = append(found, Text{Content: content, at: at, delimiter: string(form.Delimiter)})
		}
	}
	return found, nil
}
