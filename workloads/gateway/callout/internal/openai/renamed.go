package openai

import (
	"encoding/json"
	"slices"

	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/jsonwalk"
)

// modelField is the field that names the model, in every API.
const modelField = "model"

// Renamed returns a copy of a body for another model; the rest of it is as the client wrote it. The body must be a
// JSON object, and only the first of several equal keys changes.
func Renamed(body []byte, model string) ([]byte, *Error) {
	cursor, isValid := jsonwalk.New(body)
	if !isValid || cursor.Kind() != '{' {
		return nil, apierror.Invalid(400, "invalid_json", "", "The body must be one JSON object.")
	}
	var at *jsonwalk.Span
	cursor.Object(func(key jsonwalk.Span) {
		isModel := cursor.Text(key) == modelField
		cursor.Kind()
		if span := cursor.Skip(); isModel && at == nil {
			at = &span
		}
	})
	name, err := json.Marshal(model)
	if at == nil || err != nil {
		return nil, apierror.Invalid(400, "invalid_model", modelField, "`model` must be a string with the name of a model.")
	}
	return slices.Concat(body[:at.Start], name, body[at.End:]), nil
}
