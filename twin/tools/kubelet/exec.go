package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const (
	lookTime  = time.Second
	drainTime = 2 * time.Second
)

// commands are the process groups of commands that run.
type commands struct {
	lock   sync.Mutex
	groups map[int]struct{}
}

func newCommands() *commands {
	return &commands{groups: map[int]struct{}{}}
}

func (c *commands) add(group int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.groups[group] = struct{}{}
}

func (c *commands) remove(group int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.groups, group)
}

// end ends what still runs.
func (c *commands) end() {
	c.lock.Lock()
	defer c.lock.Unlock()
	for group := range c.groups {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
}

// ExecInContainer runs a command in the surroundings of a container: its environment, folders and user.
func (n *node) ExecInContainer(ctx context.Context, name, _, containerName string, words []string, in io.Reader,
	out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	namespace, podName, _ := strings.Cut(name, "/")
	found, err := n.container(namespace, podName, containerName)
	if err != nil {
		return err
	}
	command := found.command(words)
	if tty {
		err = n.withTerminal(command, found, in, out, resize)
	} else {
		err = n.withPipes(command, found, in, out, errOut)
	}
	return exitOf(err)
}

// command returns this program in new namespaces, which then becomes the container's command.
func (c *container) command(words []string) *exec.Cmd {
	command := exec.Command("/proc/self/exe", append([]string{enterCommand, c.file, c.pod.folder}, words...)...)
	command.Env = []string{}
	for name, value := range c.Environment {
		command.Env = append(command.Env, name+"="+value)
	}
	command.SysProcAttr = &syscall.SysProcAttr{
		Setsid:      true,
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: c.UID, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: c.GID, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SETPCAP},
	}
	return command
}

func (n *node) withPipes(command *exec.Cmd, of *container, in io.Reader, out, errOut io.Writer) error {
	if out != nil {
		command.Stdout = out
	}
	if errOut != nil {
		command.Stderr = errOut
	}
	command.WaitDelay = drainTime // a child in the background may hold the pipes
	if in != nil {
		input, err := command.StdinPipe() // not Stdin: the end of the command need not wait for its end
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(input, in)
			_ = input.Close()
		}()
	}
	if err := command.Start(); err != nil {
		return refused(err)
	}
	defer n.watch(command, of)()
	err := command.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

func (n *node) withTerminal(command *exec.Cmd, of *container, in io.Reader, out io.Writer,
	resize <-chan remotecommand.TerminalSize,
) error {
	command.Env = append(command.Env, "TERM=xterm")
	command.SysProcAttr.Setctty = true
	terminal, err := pty.StartWithAttrs(command, nil, command.SysProcAttr)
	if err != nil {
		return refused(err)
	}
	defer terminal.Close()
	defer n.watch(command, of)()
	go func() {
		for size := range resize {
			_ = pty.Setsize(terminal, &pty.Winsize{Rows: size.Height, Cols: size.Width})
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }()
	}
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		if out != nil {
			_, _ = io.Copy(out, terminal)
		}
	}()
	err = command.Wait()
	select {
	case <-shown:
	case <-time.After(drainTime):
	}
	return err
}

// watch ends a command with its container, as the runtime does, and returns what to call when it has ended.
func (n *node) watch(command *exec.Cmd, of *container) func() {
	group := command.Process.Pid
	n.commands.add(group)
	done := make(chan struct{})
	go func() {
		for of.runs() {
			select {
			case <-done:
				return
			case <-time.After(lookTime):
			}
		}
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}()
	return func() {
		close(done)
		n.commands.remove(group)
	}
}

// refused says why a command cannot have namespaces of its own.
func refused(err error) error {
	return fmt.Errorf("exec needs user namespaces, which this machine refuses (%w): see docs/operations.md", err)
}

// exitOf returns the error with which kubectl exits as the command did.
func exitOf(err error) error {
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return err
	}
	code := ended.ExitCode()
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		const signalled = 128
		code = signalled + int(status.Signal())
	}
	return utilexec.CodeExitError{Err: ended, Code: code}
}
