// Command acmesolver answers one HTTP-01 challenge, with cert-manager's own solver and its
// program's flags.
package main

import (
	"flag"
	"log"

	"github.com/cert-manager/cert-manager/pkg/issuer/acme/http/solver"
	"github.com/go-logr/stdr"
)

func main() {
	answer := &solver.HTTP01Solver{}
	flag.IntVar(&answer.ListenPort, "listen-port", 8089, "the port to listen on")
	flag.StringVar(&answer.Domain, "domain", "", "the host name that is to be verified")
	flag.StringVar(&answer.Token, "token", "", "the token of the challenge")
	flag.StringVar(&answer.Key, "key", "", "what answers the challenge")
	flag.Parse()
	log.Fatal(answer.Listen(stdr.New(log.Default())))
}
