package playground

import (
	"maps"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func kubeconfigOf(dir string) string { return filepath.Join(dir, "kubeconfig") }

// writeKubeconfig merges the clusters' kubeconfigs into one file, with a context for each cluster.
func (p *Playground) writeKubeconfig() error {
	joined := clientcmdapi.NewConfig()
	for _, name := range p.Names() {
		config, err := clientcmd.LoadFromFile(p.Clusters[name].Kubeconfig())
		if err != nil {
			return err
		}
		maps.Copy(joined.Clusters, config.Clusters)
		maps.Copy(joined.AuthInfos, config.AuthInfos)
		maps.Copy(joined.Contexts, config.Contexts)
	}
	joined.CurrentContext = BrokerCluster
	return clientcmd.WriteToFile(*joined, p.Kubeconfig())
}

// KubeconfigOf returns the path of the file with an administrator's credentials for one cluster of the playground in
// dir. For an empty name, it returns the path of the file with a context for each cluster.
func KubeconfigOf(dir, cluster string) string {
	if cluster == "" {
		return kubeconfigOf(dir)
	}
	return filepath.Join(clustersOf(dir), cluster, "admin.kubeconfig")
}
