package owncallers

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets another user run this program as a client, whose answer it prints.
func TestMain(m *testing.M) {
	if address := os.Getenv("OWNCALLERS_ASK"); address != "" {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			os.Exit(1)
		}
		_, _ = io.Copy(os.Stdout, connection)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// greeting serves connections with a word.
func greeting(t *testing.T) string {
	t.Helper()
	made, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	go func() {
		for {
			connection, err := made.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(connection, "hello")
			_ = connection.Close()
		}
	}()
	return made.Addr().String()
}

func pair(t *testing.T) (caller net.Conn, accepted net.Conn) {
	t.Helper()
	made, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = made.Close() }()
	caller, err = net.Dial("tcp4", made.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err = made.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = caller.Close(), accepted.Close() })
	return caller, accepted
}

func TestAProgramOfThisUserIsServed(t *testing.T) {
	connection, err := net.Dial("tcp", greeting(t))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(connection); err != nil || string(text) != "hello" {
		t.Fatalf("got %q, %v", text, err)
	}
}

func TestAProgramOfAnotherUserGetsNothingAndTheNextCallerIsServed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	address := greeting(t)
	itself, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(itself)
	if err != nil {
		t.Fatal(err)
	}
	client := "/tmp/" + strings.ReplaceAll(t.Name(), "/", "-") // a folder that the other user can enter
	if err := os.WriteFile(client, content, 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(client) }()
	asking := exec.Command(client)
	asking.Dir = "/"
	asking.Env = []string{"OWNCALLERS_ASK=" + address}
	asking.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if text, err := asking.Output(); err != nil || len(text) != 0 {
		t.Fatalf("another user got %q, %v", text, err)
	}
	TestAProgramOfThisUserIsServed(t)
}

func TestTheKernelNamesTheUserInBothWays(t *testing.T) {
	caller, accepted := pair(t)
	own, served := addrPort(caller.LocalAddr()), addrPort(accepted.LocalAddr())
	if uid, inode, err := asked(own, served); err != nil || uid != os.Getuid() || inode == 0 {
		t.Errorf("asked: got %d, %d, %v", uid, inode, err)
	}
	if uid, err := listed(own, served); err != nil || uid != os.Getuid() {
		t.Errorf("listed: got %d, %v", uid, err)
	}
}

func TestACallerThatHasClosedItsSocketIsNobodysAndNotRoot(t *testing.T) {
	caller, accepted := pair(t)
	own, served := addrPort(caller.LocalAddr()), addrPort(accepted.LocalAddr())
	_, _ = io.WriteString(caller, "POST / HTTP/1.1")
	_ = caller.Close()
	time.Sleep(50 * time.Millisecond)
	if uid, err := uidOf(own, served); err == nil {
		t.Errorf("got user %d", uid)
	}
	if uid, err := listed(own, served); err == nil {
		t.Errorf("listed: got user %d", uid)
	}
}

func TestAnswersGoToProgramsAndNotToWebPages(t *testing.T) {
	served := NoPages(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		answer.WriteHeader(http.StatusNoContent)
	}))
	for _, each := range []struct {
		host, origin, problem string
	}{
		{host: "127.0.0.1:8080"},
		{host: "127.36.0.5"},
		{host: "[::1]:8080"},
		{host: "localhost:8080"},
		{host: "evil.example:8080", problem: "Host must be a loopback address, got evil.example:8080"},
		{host: "127.0.0.1.evil.example", problem: "Host must be a loopback address, got 127.0.0.1.evil.example"},
		{host: "10.0.0.1:80", problem: "Host must be a loopback address, got 10.0.0.1:80"},
		{
			host: "127.0.0.1", origin: "https://evil.example",
			problem: "requests of web pages are not answered (Origin https://evil.example)",
		},
		{host: "127.0.0.1", origin: "null", problem: "requests of web pages are not answered (Origin null)"},
	} {
		asked := httptest.NewRequest(http.MethodPost, "/", nil)
		asked.Host = each.host
		if each.origin != "" {
			asked.Header.Set("Origin", each.origin)
		}
		answer := httptest.NewRecorder()
		served.ServeHTTP(answer, asked)
		status := http.StatusNoContent
		if each.problem != "" {
			status = http.StatusForbidden
		}
		if text := strings.TrimSpace(answer.Body.String()); answer.Code != status || text != each.problem {
			t.Errorf("%+v: got %d %q", each, answer.Code, text)
		}
	}
}
