// Command waf-agent inspects HTTP requests for Sluice with ModSecurity's directives.
//
// It serves Envoy's external processing protocol (envoy.service.ext_proc.v3) and a service through
// which the gateway sends the directives (configurations.proto). docs/waf-agent.md describes both.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

const (
	// maxMessage is the size limit of a message: a piece of a body, a head or a configuration.
	maxMessage = 1 << 20
	// stopTimeout is the time for requests in progress when the agent stops.
	stopTimeout = 10 * time.Second
	// probeTimeout is the time within which an agent must answer a probe.
	probeTimeout = 3 * time.Second
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9913", "address to serve at: IP:PORT, or unix:PATH")
	most := flag.Int("max-configurations", 32, "number of compiled configurations to keep; the least recently used one is dropped")
	isProbe := flag.Bool("probe", false, "ask the agent at --listen whether it serves, and exit; for probes in a container")
	logLevel := flag.String("log-level", "info", "debug, info, warn or error")
	flag.Parse()
	var level slog.Level
	if err := level.UnmarshalText([]byte(*logLevel)); err != nil || flag.NArg() > 0 || *most < 1 {
		flag.Usage()
		os.Exit(2)
	}
	logger := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if *isProbe {
		if err := probe(ctx, *listen); err != nil {
			logger.Error("the agent does not serve", "error", err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, *listen, *most, logger); err != nil {
		logger.Error("the agent cannot run", "error", err)
		os.Exit(1)
	}
}

// probe returns an error unless an agent serves at the address.
func probe(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	client, err := grpc.NewClient("passthrough:agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			network, place := split(address)
			return new(net.Dialer).DialContext(ctx, network, place)
		}))
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = healthpb.NewHealthClient(client).Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

// run serves until ctx ends.
func run(ctx context.Context, address string, most int, logger *slog.Logger) error {
	listener, err := bind(address)
	if err != nil {
		return err
	}
	server := newServer(newConfigurations(most, logger), logger)
	go func() {
		<-ctx.Done()
		stopped := time.AfterFunc(stopTimeout, server.Stop)
		server.GracefulStop()
		stopped.Stop()
	}()
	logger.Info("serving", "address", address)
	return server.Serve(listener)
}

func newServer(configurations *configurations, logger *slog.Logger) *grpc.Server {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	extproc.RegisterExternalProcessorServer(server, &processor{configurations: configurations, logger: logger})
	server.RegisterService(&configurationsService, configurations)
	healthpb.RegisterHealthServer(server, health.NewServer())
	return server
}

// bind listens at IP:PORT or unix:PATH. The socket of an agent that has ended is replaced.
func bind(address string) (net.Listener, error) {
	network, place := split(address)
	if network == "unix" {
		if info, err := os.Stat(place); err == nil && info.Mode()&os.ModeSocket != 0 {
			if err := os.Remove(place); err != nil {
				return nil, fmt.Errorf("cannot replace the socket: %w", err)
			}
		}
	}
	return net.Listen(network, place)
}

// split returns the network of IP:PORT or unix:PATH, and the address within it.
func split(address string) (network, place string) {
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		return "unix", path
	}
	return "tcp", address
}
