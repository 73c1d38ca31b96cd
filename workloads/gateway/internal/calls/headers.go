package calls

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

var headerName = regexp.MustCompile(`^[a-z0-9-]+$`)

// HeadersOf returns the headers by lowercase name.
func HeadersOf(message *core.HeaderMap) map[string][]string {
	found := make(map[string][]string, len(message.GetHeaders()))
	for _, header := range message.GetHeaders() {
		value := string(header.GetRawValue())
		if value == "" {
			value = header.GetValue()
		}
		name := strings.ToLower(header.GetKey())
		found[name] = append(found[name], value)
	}
	return found
}

// First returns the first value of a header, or nothing.
func First(headers map[string][]string, name string) string {
	if values := headers[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Options returns changes that set headers.
func Options(set map[string]string) []*core.HeaderValueOption {
	made := make([]*core.HeaderValueOption, 0, len(set))
	for name, value := range set {
		made = append(made, &core.HeaderValueOption{
			Header:       &core.HeaderValue{Key: name, RawValue: []byte(value)},
			AppendAction: core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	slices.SortFunc(made, func(a, b *core.HeaderValueOption) int {
		return strings.Compare(a.GetHeader().GetKey(), b.GetHeader().GetKey())
	})
	return made
}

// Names is a flag with names of headers, separated by commas.
type Names []string

// String returns the names as Set takes them.
func (n *Names) String() string { return strings.Join(*n, ",") }

// Set replaces the names.
func (n *Names) Set(text string) error {
	var names Names
	for name := range strings.SplitSeq(text, ",") {
		if !headerName.MatchString(name) {
			return fmt.Errorf("must be names of headers in lowercase, separated by commas, got %q", text)
		}
		names = append(names, name)
	}
	*n = names
	return nil
}

// In returns those of the names that a message has.
func (n Names) In(headers map[string][]string) []string {
	var found []string
	for _, name := range n {
		if _, has := headers[name]; has {
			found = append(found, name)
		}
	}
	return found
}

// Forwarded returns an address of X-Forwarded-For by its position, counted from the end.
func Forwarded(headers map[string][]string, position int) (netip.Addr, error) {
	addresses := strings.Split(strings.Join(headers["x-forwarded-for"], ","), ",")
	text := strings.TrimSpace(addresses[max(0, len(addresses)-position)])
	address, err := netip.ParseAddr(text)
	return address.Unmap(), err
}

// ClientAddress returns the address of a client, or the /64 network for IPv6. Each load balancer appends
// the address it was called from and its own, so the client's address is second to last behind one, and
// fourth to last behind two (Google Cloud, "External Application Load Balancer overview", X-Forwarded-For
// header). It is assumed that a callout sees the header with all of them.
func ClientAddress(headers map[string][]string, hops int) string {
	address, err := Forwarded(headers, hops)
	if err != nil {
		return "unknown"
	}
	if address.Is4() {
		return address.String()
	}
	network, err := address.WithZone("").Prefix(64)
	if err != nil {
		return "unknown"
	}
	return network.String()
}
