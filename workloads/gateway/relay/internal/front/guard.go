package front

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/forms"
	"gke-inference/gateway/internal/texts"
	"gke-inference/gateway/relay/internal/config"
)

// Armor calls Model Armor with the identity of the program.
type Armor interface {
	// Blocks reports whether a template finds something in a prompt. An error is no verdict.
	Blocks(ctx context.Context, template, prompt string) (bool, error)
}

// check returns why a request must not reach a region, or nil.
func (f *Router) check(r *http.Request, guard *config.FrontGuard, body []byte) *apierror.Error {
	if guard == nil || len(body) == 0 {
		return nil
	}
	prompt, refused := promptOf(r, body)
	if refused != nil {
		return refused
	}
	limit, done := context.WithTimeout(r.Context(), time.Duration(guard.TimeoutMS)*time.Millisecond)
	defer done()
	isBlocked, err := f.Armor.Blocks(limit, guard.Template, prompt)
	switch {
	case isBlocked:
		return apierror.Invalid(http.StatusBadRequest, "content_filter", "", "A guardrail blocked the prompt.").Final()
	case err == nil:
		return nil
	}
	slog.Error("no verdict of the guardrail", "passes", guard.FailOpen, "error", err.Error())
	if guard.FailOpen {
		return nil
	}
	return apierror.Failed(http.StatusServiceUnavailable, "service_unavailable", "A guardrail of the platform is unavailable.")
}

// promptOf returns all texts of a request. What no guardrail can read is refused.
func promptOf(r *http.Request, body []byte) (string, *apierror.Error) {
	var found []texts.Text
	var refused *texts.Refused
	if forms.Is(r.Header["Content-Type"]) {
		boundary, fault := forms.Boundary(r.Header["Content-Type"])
		if fault != nil {
			return "", apierror.Invalid(http.StatusBadRequest, "invalid_body", fault.Field, "%s", fault.Error())
		}
		form, fault := forms.Read(body, boundary)
		if fault != nil {
			return "", apierror.Invalid(http.StatusBadRequest, "invalid_body", fault.Field, "%s", fault.Error())
		}
		found, refused = texts.Form(r.URL.Path, form)
	} else {
		found, refused = texts.Request(r.URL.Path, body, false)
	}
	if refused != nil {
		return "", apierror.Invalid(http.StatusBadRequest, "unsupported_parameter", refused.Field,
			"`%s` %s", refused.Field, refused.Reason)
	}
	all := make([]string, len(found))
	for i, each := range found {
		all[i] = each.Content
	}
	return strings.Join(all, "\n"), nil
}
