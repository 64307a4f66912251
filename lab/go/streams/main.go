// Command streams serves one connection from the API server to a node, for `kubectl port-forward`
// and `kubectl exec`. The streams of both are those of the kubelet, whose packages are used here:
// SPDY is spoken by nothing else.
//
//	streams port-forward    runs in the network namespace of the Pod
//	streams exec PID        runs commands in the namespaces of the container's process
//
// Standard input is the connection, on which the client has not yet sent its request.
package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const (
	// The limits of the kubelet.
	idleTimeout           = 4 * time.Hour
	streamCreationTimeout = 30 * time.Second
)

func main() {
	log.SetFlags(0)
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		log.Fatalf("standard input is no connection: %v", err)
	}
	var serve http.HandlerFunc
	switch {
	case len(os.Args) == 2 && os.Args[1] == "port-forward":
		serve = servePortForward
	case len(os.Args) == 3 && os.Args[1] == "exec":
		serve = container{pid: os.Args[2]}.serveExec
	default:
		log.Fatal("usage: streams port-forward | streams exec PID")
	}
	ended := make(chan struct{}, 2)
	server := http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { ended <- struct{}{} }()
			serve(w, r)
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				ended <- struct{}{}
			}
		},
	}
	connections := make(oneConnection, 1)
	connections <- conn
	go server.Serve(connections)
	<-ended
	// Sends the rest of a response that is no upgrade.
	_ = server.Shutdown(context.Background())
}

// oneConnection is a listener that accepts one connection.
type oneConnection chan net.Conn

func (c oneConnection) Accept() (net.Conn, error) {
	conn, open := <-c
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (c oneConnection) Close() error {
	close(c)
	return nil
}

func (oneConnection) Addr() net.Addr { return &net.UnixAddr{} }

func servePortForward(w http.ResponseWriter, r *http.Request) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(
		w, r, pod{}, "", "", options, idleTimeout, streamCreationTimeout, portforward.SupportedProtocols,
	)
}

// pod is the Pod in whose network namespace this program runs.
type pod struct{}

func (pod) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	conn, err := dial(ctx, strconv.Itoa(int(port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		// A client that has sent everything may still read.
		_, _ = io.Copy(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}

func dial(ctx context.Context, port string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		if six, other := dialer.DialContext(ctx, "tcp6", net.JoinHostPort("::1", port)); other == nil {
			return six, nil
		}
	}
	return conn, err
}

// container is a container by the number of its first process.
type container struct{ pid string }

func (c container) serveExec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(
		w, r, c, "", "", "", r.Form["command"], options, idleTimeout, streamCreationTimeout,
		remotecommand.SupportedStreamingProtocols,
	)
}

func (c container) ExecInContainer(
	ctx context.Context, _, _, _ string, command []string, in io.Reader, out, errs io.WriteCloser, tty bool,
	_ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if tty {
		return errors.New("the lab has no terminals; leave out --tty")
	}
	environment, err := os.ReadFile("/proc/" + c.pid + "/environ")
	if err != nil {
		return err
	}
	arguments := []string{"--target=" + c.pid, "--mount", "--pid", "--net", "--uts", "--ipc", "--root", "--wd", "--"}
	process := exec.CommandContext(ctx, "/usr/bin/nsenter", append(arguments, command...)...)
	process.Env = []string{}
	for _, variable := range bytes.Split(bytes.TrimRight(environment, "\x00"), []byte{0}) {
		process.Env = append(process.Env, string(variable))
	}
	process.Stdout, process.Stderr = writer(out), writer(errs)
	if in != nil {
		pipe, err := process.StdinPipe()
		if err != nil {
			return err
		}
		// The command may end without reading everything.
		go func() {
			_, _ = io.Copy(pipe, in)
			_ = pipe.Close()
		}()
	}
	err = process.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}

// writer converts a stream that was not asked for to one that discards.
func writer(stream io.WriteCloser) io.Writer {
	if stream == nil {
		return nil
	}
	return stream
}
