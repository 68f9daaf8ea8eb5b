// Command cripull makes a node's container runtime pull an image, the way its kubelet would.
// (ctr pulls outside CRI: it keeps the layers it has unpacked, so an image takes its space twice.)
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	criclient "k8s.io/cri-client/pkg"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: cripull ENDPOINT IMAGE...")
		os.Exit(2)
	}
	if err := pull(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pull(endpoint string, images []string) error {
	service, err := criclient.NewRemoteImageService(endpoint, 10*time.Second, nil, nil)
	if err != nil {
		return err
	}
	for _, image := range images {
		spec := &runtimeapi.ImageSpec{Image: image}
		if _, err := service.PullImage(context.Background(), spec, nil, nil); err != nil {
			return fmt.Errorf("%s: %w", image, err)
		}
	}
	return nil
}
