/* A libcuda.so.1 that does nothing: every call succeeds at once.
 *
 * With it Triton's launcher runs as on an H100, in Python and in C, up to the call of the driver: what is left is the
 * host time that is not the driver's. Built and loaded by bench/stand_in_driver.py.
 */
#include "cuda.h"
#include <string.h>

#undef cuDevicePrimaryCtxRetain
#undef cuModuleUnload

#define SUCCEEDS(NAME, ...)                                                                                            \
  CUresult NAME(__VA_ARGS__) { return CUDA_SUCCESS; }

static char something[64];

SUCCEEDS(cuInit, unsigned int flags)
SUCCEEDS(cuCtxSetCurrent, CUcontext context)
SUCCEEDS(cuCtxSetLimit, CUlimit limit, size_t value)
SUCCEEDS(cuModuleUnload, CUmodule module)
SUCCEEDS(cuFuncSetAttribute, CUfunction function, CUfunction_attribute attribute, int value)
SUCCEEDS(cuMemsetD8Async, CUdeviceptr pointer, unsigned char value, size_t size, CUstream stream)
SUCCEEDS(cuStreamSynchronize, CUstream stream)
SUCCEEDS(cuStreamDestroy, CUstream stream)
SUCCEEDS(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode *mode)
SUCCEEDS(cuFuncSetCacheConfig, CUfunction function, CUfunc_cache config)

struct {
  unsigned count, grid[3], block[3], shared;
} last_launch;

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra) {
  last_launch.count++;
  memcpy(last_launch.grid, &config->gridDimX, sizeof last_launch.grid);
  memcpy(last_launch.block, &config->blockDimX, sizeof last_launch.block);
  last_launch.shared = config->sharedMemBytes;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = "an error of the stand-in";
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice *device) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = (CUcontext)something;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) { return cuCtxGetCurrent(context); }
CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
  *value = 0;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *value = 9;
    break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    *value = 0;
    break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    *value = 132;
    break;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    *value = 32;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    *value = 65536;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    *value = 232448;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    *value = 233472;
    break;
  default:
    *value = 1;
  }
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  *module = (CUmodule)something;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  *function = (CUfunction)something;
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config) {
  *clusters = 1;
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetId(CUstream stream, unsigned long long *number) {
  *number = 1;
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  *stream = (CUstream)something;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetId(CUcontext context, unsigned long long *number) {
  *number = 1;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr *pointer, size_t size) {
  *pointer = (CUdeviceptr)something; /* nothing reads or writes it */
  return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  memcpy(value, &pointer, sizeof pointer);
  return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *sizes,
    const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *element_strides,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill) {
  memset(map, 0, sizeof *map);
  return CUDA_SUCCESS;
}
