package owncallers

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// NoPages refuses requests that a web page can send. Browsers name the page's origin in requests to other
// origins, and the page's own host name in requests that they consider its own: after the name was changed
// to a loopback address, that is every request (DNS rebinding). Programs do neither here.
func NoPages(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(answer http.ResponseWriter, asked *http.Request) {
		if problem := pageProblem(asked); problem != "" {
			http.Error(answer, problem, http.StatusForbidden)
			return
		}
		handler.ServeHTTP(answer, asked)
	})
}

func pageProblem(asked *http.Request) string {
	if origin := asked.Header.Get("Origin"); origin != "" {
		return fmt.Sprintf("requests of web pages are not answered (Origin %s)", origin)
	}
	name := asked.Host
	if host, _, err := net.SplitHostPort(asked.Host); err == nil {
		name = host
	}
	if name == "" || name == "localhost" {
		return ""
	}
	address, err := netip.ParseAddr(strings.Trim(name, "[]"))
	if err != nil || !address.Unmap().IsLoopback() {
		return fmt.Sprintf("Host must be a loopback address, got %s", asked.Host)
	}
	return ""
}
