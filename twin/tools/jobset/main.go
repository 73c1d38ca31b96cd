// Jobset is the JobSet operator with the folder of its certificate from its configuration file.
//
// Upstream's program (sigs.k8s.io/jobset v0.12.0, pkg/util/cert) waits for the certificate in
// /tmp/k8s-webhook-server/serving-certs whatever the file says. In a cluster the Secret is mounted
// there; on one machine, several clusters would share the folder. Everything else is upstream's.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	configapi "sigs.k8s.io/jobset/api/config/v1alpha1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/config"
	"sigs.k8s.io/jobset/pkg/controllers"
	_ "sigs.k8s.io/jobset/pkg/features"
	"sigs.k8s.io/jobset/pkg/webhooks"
)

func main() {
	file := flag.String("config", "", "configuration file of the operator")
	logging := zap.Options{}
	logging.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	if err := run(*file); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, jobset.AddToScheme, configapi.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	options, settings, err := config.Load(scheme, file)
	if err != nil {
		return err
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(settings.FeatureGates); err != nil {
		return err
	}
	client, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	client.QPS, client.Burst = *settings.ClientConnection.QPS, int(*settings.ClientConnection.Burst)
	manager, err := ctrl.NewManager(client, options)
	if err != nil {
		return err
	}
	certified := make(chan struct{})
	if err := certify(manager, settings, certified); err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := controllers.SetupJobSetIndexes(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	if err := controllers.SetupPodIndexes(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	// Webhooks need the certificate, which the manager writes once it runs.
	go func() {
		<-certified
		if err := serve(manager); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
	}()
	if err := manager.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	ready := func(request *http.Request) error {
		select {
		case <-certified:
			return manager.GetWebhookServer().StartedChecker()(request)
		default:
			return errors.New("there is no certificate yet")
		}
	}
	if err := manager.AddReadyzCheck("readyz", ready); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func certify(manager ctrl.Manager, settings configapi.Configuration, done chan struct{}) error {
	namespace, own := settings.LeaderElection.ResourceNamespace, settings.InternalCertManagement
	return rotator.AddRotator(manager, &rotator.CertRotator{
		SecretKey:      types.NamespacedName{Namespace: namespace, Name: *own.WebhookSecretName},
		CertDir:        settings.Webhook.CertDir,
		CAName:         "jobset-ca",
		CAOrganization: "jobset",
		DNSName:        fmt.Sprintf("%s.%s.svc", *own.WebhookServiceName, namespace),
		IsReady:        done,
		Webhooks: []rotator.WebhookInfo{
			{Type: rotator.Validating, Name: "jobset-validating-webhook-configuration"},
			{Type: rotator.Mutating, Name: "jobset-mutating-webhook-configuration"},
		},
	})
}

func serve(manager ctrl.Manager) error {
	client, scheme := manager.GetClient(), manager.GetScheme()
	sets := controllers.NewJobSetReconciler(client, scheme, manager.GetEventRecorder("jobset"))
	if err := sets.SetupWithManager(manager); err != nil {
		return err
	}
	pods := controllers.NewPodReconciler(client, scheme, manager.GetEventRecorder("pod"))
	if err := pods.SetupWithManager(manager); err != nil {
		return err
	}
	return webhooks.Setup(manager)
}
