// Package fallback makes the relay a replica of a model's pool that takes requests beyond the engines'
// capacity.
package fallback

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gke-inference/gateway/internal/web"
)

const (
	apiTimeout    = 5 * time.Second
	largestAnswer = 32 << 20
)

// Kube is the API server of the cluster, with the permissions of the pod's service account.
type Kube struct {
	server string
	folder string
	client *http.Client
}

// NewKube returns the API server that the environment specifies.
func NewKube(folder string) (*Kube, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: are required for a fallback")
	}
	authorities := x509.NewCertPool()
	content, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil || !authorities.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s: must have the certificates of the API server in ca.crt", folder)
	}
	return &Kube{
		server: "https://" + net.JoinHostPort(host, port), folder: folder,
		client: &http.Client{Timeout: apiTimeout, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: authorities}, MaxIdleConnsPerHost: 4,
		}},
	}, nil
}

func (k *Kube) call(ctx context.Context, method, path string, body any, into any) error {
	request, err := web.Request(ctx, method, k.server+path, body)
	if err != nil {
		return err
	}
	// the kubelet renews the token
	token, err := os.ReadFile(filepath.Join(k.folder, "token"))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Content-Type", "application/merge-patch+json")
	return web.Call(k.client, request, largestAnswer, into)
}

type configMap struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

func (k *Kube) readMap(ctx context.Context, namespace, name string) (*configMap, error) {
	found := &configMap{}
	return found, k.call(ctx, http.MethodGet, mapPath(namespace, name), nil, found)
}

// writeMap updates a ConfigMap unless it has changed since it was read.
func (k *Kube) writeMap(ctx context.Context, namespace, name, version string, data map[string]string) error {
	change := map[string]any{"metadata": map[string]string{"resourceVersion": version}, "data": data}
	return k.call(ctx, http.MethodPatch, mapPath(namespace, name)+"?fieldManager=relay", change, &configMap{})
}

func mapPath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/configmaps/" + name
}

// readyPods returns the sorted addresses of the ready pods.
func (k *Kube) readyPods(ctx context.Context, namespace string, selector map[string]string) ([]string, error) {
	var labels []string
	for name, value := range selector {
		labels = append(labels, name+"="+value)
	}
	slices.Sort(labels)
	var found struct {
		Items []struct {
			Metadata struct {
				DeletionTimestamp *string `json:"deletionTimestamp"`
			} `json:"metadata"`
			Status struct {
				PodIP      string `json:"podIP"`
				Conditions []struct {
					Type   string `json:"type"`
					Status string `json:"status"`
				} `json:"conditions"`
			} `json:"status"`
		} `json:"items"`
	}
	path := "/api/v1/namespaces/" + namespace + "/pods?labelSelector=" + url.QueryEscape(strings.Join(labels, ","))
	if err := k.call(ctx, http.MethodGet, path, nil, &found); err != nil {
		return nil, err
	}
	addresses := []string{}
	for _, pod := range found.Items {
		isReady := false
		for _, condition := range pod.Status.Conditions {
			isReady = isReady || condition.Type == "Ready" && condition.Status == "True"
		}
		if isReady && pod.Status.PodIP != "" && pod.Metadata.DeletionTimestamp == nil {
			addresses = append(addresses, pod.Status.PodIP)
		}
	}
	slices.Sort(addresses)
	return addresses, nil
}
