// Command cert-manager runs cert-manager's own controllers for HTTP-01: the part of its program
// `cmd/controller` that an ACME issuer needs. That program is a module of its own which is never
// published, so the module proxy has the controllers but not the program.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"k8s.io/apimachinery/pkg/api/resource"

	// Each registers itself with the package `controller`.
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmechallenges"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmeorders"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/ingresses"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/acme"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	namespace := flag.String("namespace", "", "the one namespace to work in")
	solver := flag.String("acme-http01-solver-image", "acmesolver", "image of the solver's Pods")
	nameservers := flag.String("acme-http01-solver-nameservers", "", "host:port, comma-separated, for the self-check")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         *kubeconfig,
		Namespace:          *namespace,
		KubernetesAPIQPS:   100,
		KubernetesAPIBurst: 200,
		ACMEOptions: controller.ACMEOptions{
			HTTP01SolverImage:                 *solver,
			HTTP01SolverNameservers:           strings.Split(*nameservers, ","),
			HTTP01SolverResourceRequestCPU:    resource.MustParse("10m"),
			HTTP01SolverResourceRequestMemory: resource.MustParse("64Mi"),
			HTTP01SolverResourceLimitsCPU:     resource.MustParse("100m"),
			HTTP01SolverResourceLimitsMemory:  resource.MustParse("64Mi"),
			ACMEHTTP01SolverRunAsNonRoot:      true,
			DNS01Nameservers:                  strings.Split(*nameservers, ","),
			DNS01CheckRetryPeriod:             10 * time.Second,
		},
		SchedulerOptions: controller.SchedulerOptions{MaxConcurrentChallenges: 60},
		IngressShimOptions: controller.IngressShimOptions{
			DefaultIssuerKind:  "Issuer",
			DefaultIssuerGroup: "cert-manager.io",
		},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/"},
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		log.Fatalf("cannot reach the API server: %v", err)
	}
	shared, err := factory.Build()
	if err != nil {
		log.Fatalf("cannot make the clients: %v", err)
	}
	var running sync.WaitGroup
	for name, begin := range controller.Known() {
		control, err := begin(factory)
		if err != nil {
			log.Fatalf("cannot make the controller %s: %v", name, err)
		}
		running.Go(func() {
			if err := control.Run(5, ctx); err != nil {
				log.Fatalf("the controller %s has ended: %v", name, err)
			}
		})
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	log.Print("cert-manager's controllers run")
	running.Wait()
}
