#linear = #ttg.linear<{register = [[0, 0, 1], [8, 0, 0], [0, 0, 8], [0, 0, 16], [0, 0, 32], [0, 0, 64], [0, 1, 0]], lane = [[0, 0, 2], [0, 0, 4], [1, 0, 0], [2, 0, 0], [4, 0, 0]], warp = [[16, 0, 0], [32, 0, 0], [64, 0, 0]], block = []}>
#linear1 = #ttg.linear<{register = [[0, 1, 0], [8, 0, 0], [0, 8, 0], [0, 16, 0], [0, 32, 0], [0, 64, 0], [0, 0, 1]], lane = [[0, 2, 0], [0, 4, 0], [1, 0, 0], [2, 0, 0], [4, 0, 0]], warp = [[16, 0, 0], [32, 0, 0], [64, 0, 0]], block = []}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [8, 1], instrShape = [16, 256, 16]}>
#mma1 = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [8, 1], instrShape = [16, 128, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#shared1 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#shared2 = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#smem = #ttg.shared_memory
"builtin.module"() ({
  "tt.func"() <{function_type = (!tt.tensordesc<128x64xf16, #shared>, i32, i32, i64, i64, !tt.tensordesc<256x64xf16, #shared>, i32, i32, i64, i64, !tt.tensordesc<128x128xf16, #shared>, i32, i32, i64, i64, i32, i32, i32) -> (), sym_name = "gemm_ws", sym_visibility = "public"}> ({
  ^bb0(%0: !tt.tensordesc<128x64xf16, #shared>, %1: i32, %2: i32, %3: i64, %4: i64, %5: !tt.tensordesc<256x64xf16, #shared>, %6: i32, %7: i32, %8: i64, %9: i64, %10: !tt.tensordesc<128x128xf16, #shared>, %11: i32, %12: i32, %13: i64, %14: i64, %15: i32, %16: i32, %17: i32):
    %18 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %19 = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %20 = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %21 = "arith.constant"() <{value = 127 : i32}> : () -> i32
    %22 = "arith.constant"() <{value = 128 : i32}> : () -> i32
    %23 = "arith.constant"() <{value = 255 : i32}> : () -> i32
    %24 = "arith.constant"() <{value = 256 : i32}> : () -> i32
    %25 = "arith.constant"() <{value = 8 : i32}> : () -> i32
    %26 = "arith.constant"() <{value = dense<0.000000e+00> : tensor<128x256xf32, #mma>}> : () -> tensor<128x256xf32, #mma>
    %27 = "arith.constant"() <{value = 64 : i32}> : () -> i32
    %28 = "arith.constant"() <{value = 3 : i32}> : () -> i32
    %29 = "arith.constant"() <{value = true}> : () -> i1
    %30 = "ttg.local_alloc"() : () -> !ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>
    %31 = "ttg.local_alloc"() : () -> !ttg.memdesc<3x256x64xf16, #shared, #smem, mutable>
    %32 = "ttg.local_alloc"() : () -> !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>
    %33 = "ttg.local_alloc"() : () -> !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>
    %34 = "ttg.memdesc_index"(%32, %18) : (!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%34) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %35 = "ttg.memdesc_index"(%33, %18) : (!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%35) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %36 = "ttg.memdesc_index"(%32, %19) : (!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%36) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %37 = "ttg.memdesc_index"(%33, %19) : (!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%37) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %38 = "ttg.memdesc_index"(%32, %20) : (!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%38) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %39 = "ttg.memdesc_index"(%33, %20) : (!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%39) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    "ttg.warp_specialize"() <{partitionNumWarps = array<i32: 1>, requestedRegisters = array<i32: 24>}> ({
      %40 = "arith.addi"(%15, %21) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %41 = "arith.divsi"(%40, %22) : (i32, i32) -> i32
      %42 = "arith.addi"(%16, %23) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %43 = "arith.divsi"(%42, %24) : (i32, i32) -> i32
      %44 = "ttg.local_alloc"() : () -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
      %45 = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
      %46 = "arith.muli"(%41, %43) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %47 = "tt.get_num_programs"() <{axis = 0 : i32}> : () -> i32
      %48 = "scf.for"(%45, %46, %47, %18) ({
      ^bb1(%49: i32, %50: i32):
        %51 = "arith.muli"(%43, %25) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %52 = "arith.divsi"(%49, %51) : (i32, i32) -> i32
        %53 = "arith.muli"(%52, %25) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %54 = "arith.subi"(%41, %53) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %55 = "arith.minsi"(%54, %25) : (i32, i32) -> i32
        %56 = "arith.remsi"(%49, %55) : (i32, i32) -> i32
        %57 = "arith.addi"(%53, %56) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %58 = "arith.remsi"(%49, %51) : (i32, i32) -> i32
        %59 = "arith.divsi"(%58, %55) : (i32, i32) -> i32
        %60:2 = "scf.for"(%18, %17, %27, %50, %26) ({
        ^bb2(%61: i32, %62: i32, %63: tensor<128x256xf32, #mma>):
          %64 = "arith.remsi"(%62, %28) : (i32, i32) -> i32
          %65 = "arith.divsi"(%62, %28) : (i32, i32) -> i32
          %66 = "arith.andi"(%65, %19) : (i32, i32) -> i32
          %67 = "ttg.memdesc_index"(%32, %64) : (!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.wait_barrier"(%67, %66, %29) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
          %68 = "arith.cmpi"(%61, %18) <{predicate = 1 : i64}> : (i32, i32) -> i1
          %69 = "ttg.memdesc_index"(%30, %64) : (!ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x64xf16, #shared, #smem, mutable>
          %70 = "ttg.memdesc_index"(%31, %64) : (!ttg.memdesc<3x256x64xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<256x64xf16, #shared, #smem, mutable>
          %71 = "ttg.memdesc_trans"(%70) <{order = array<i32: 1, 0>}> : (!ttg.memdesc<256x64xf16, #shared, #smem, mutable>) -> !ttg.memdesc<64x256xf16, #shared2, #smem, mutable>
          %72 = "ttng.warp_group_dot"(%69, %71, %63, %68) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<128x64xf16, #shared, #smem, mutable>, !ttg.memdesc<64x256xf16, #shared2, #smem, mutable>, tensor<128x256xf32, #mma>, i1) -> tensor<128x256xf32, #mma>
          %73 = "ttng.warp_group_dot_wait"(%72) <{pendings = 1 : i32}> : (tensor<128x256xf32, #mma>) -> tensor<128x256xf32, #mma>
          %74 = "arith.addi"(%62, %20) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %75 = "arith.remsi"(%74, %28) : (i32, i32) -> i32
          %76 = "ttg.memdesc_index"(%33, %75) : (!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.arrive_barrier"(%76, %68) <{count = 1 : i32, multicastCTA = 0 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
          %77 = "arith.addi"(%62, %19) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          "scf.yield"(%77, %73) : (i32, tensor<128x256xf32, #mma>) -> ()
        }) : (i32, i32, i32, i32, tensor<128x256xf32, #mma>) -> (i32, tensor<128x256xf32, #mma>)
        %78 = "ttng.warp_group_dot_wait"(%60#1) <{pendings = 0 : i32}> : (tensor<128x256xf32, #mma>) -> tensor<128x256xf32, #mma>
        %79 = "arith.cmpi"(%17, %18) <{predicate = 4 : i64}> : (i32, i32) -> i1
        %80 = "arith.addi"(%60#0, %20) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %81 = "arith.remsi"(%80, %28) : (i32, i32) -> i32
        %82 = "ttg.memdesc_index"(%33, %81) : (!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.arrive_barrier"(%82, %79) <{count = 1 : i32, multicastCTA = 0 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %83 = "arith.truncf"(%78) : (tensor<128x256xf32, #mma>) -> tensor<128x256xf16, #mma>
        %84 = "tt.reshape"(%83) : (tensor<128x256xf16, #mma>) -> tensor<128x2x128xf16, #linear>
        %85 = "tt.trans"(%84) <{order = array<i32: 0, 2, 1>}> : (tensor<128x2x128xf16, #linear>) -> tensor<128x128x2xf16, #linear1>
        %86:2 = "tt.split"(%85) : (tensor<128x128x2xf16, #linear1>) -> (tensor<128x128xf16, #ttg.slice<{dim = 2, parent = #linear1}>>, tensor<128x128xf16, #ttg.slice<{dim = 2, parent = #linear1}>>)
        "ttng.async_tma_store_wait"() <{pendings = 0 : i32, read_only}> : () -> ()
        %87 = "ttg.convert_layout"(%86#0) : (tensor<128x128xf16, #ttg.slice<{dim = 2, parent = #linear1}>>) -> tensor<128x128xf16, #mma1>
        "ttg.local_store"(%87, %44) : (tensor<128x128xf16, #mma1>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> ()
        "ttng.fence_async_shared"() <{bCluster = false}> : () -> ()
        %88 = "arith.muli"(%57, %22) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %89 = "arith.muli"(%59, %24) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        "ttng.async_tma_copy_local_to_global"(%10, %88, %89, %44) : (!tt.tensordesc<128x128xf16, #shared>, i32, i32, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> ()
        "ttng.async_tma_store_wait"() <{pendings = 0 : i32, read_only}> : () -> ()
        %90 = "ttg.convert_layout"(%86#1) : (tensor<128x128xf16, #ttg.slice<{dim = 2, parent = #linear1}>>) -> tensor<128x128xf16, #mma1>
        "ttg.local_store"(%90, %44) : (tensor<128x128xf16, #mma1>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> ()
        "ttng.fence_async_shared"() <{bCluster = false}> : () -> ()
        %91 = "arith.addi"(%89, %22) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        "ttng.async_tma_copy_local_to_global"(%10, %88, %91, %44) : (!tt.tensordesc<128x128xf16, #shared>, i32, i32, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> ()
        "scf.yield"(%60#0) : (i32) -> ()
      }) : (i32, i32, i32, i32) -> i32
      "ttng.async_tma_store_wait"() <{pendings = 0 : i32, read_only}> : () -> ()
      "ttg.warp_yield"() : () -> ()
    }, {
      "ttg.warp_specialize.partitions"(%0, %5, %30, %31, %32, %33, %15, %16, %17) ({
      ^bb3(%92: !tt.tensordesc<128x64xf16, #shared>, %93: !tt.tensordesc<256x64xf16, #shared>, %94: !ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>, %95: !ttg.memdesc<3x256x64xf16, #shared, #smem, mutable>, %96: !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, %97: !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, %98: i32, %99: i32, %100: i32):
        %101 = "arith.constant"() <{value = 127 : i32}> : () -> i32
        %102 = "arith.constant"() <{value = 128 : i32}> : () -> i32
        %103 = "arith.constant"() <{value = 255 : i32}> : () -> i32
        %104 = "arith.constant"() <{value = 256 : i32}> : () -> i32
        %105 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %106 = "arith.constant"() <{value = 8 : i32}> : () -> i32
        %107 = "arith.constant"() <{value = 64 : i32}> : () -> i32
        %108 = "arith.constant"() <{value = 3 : i32}> : () -> i32
        %109 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %110 = "arith.constant"() <{value = true}> : () -> i1
        %111 = "arith.addi"(%98, %101) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %112 = "arith.divsi"(%111, %102) : (i32, i32) -> i32
        %113 = "arith.addi"(%99, %103) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %114 = "arith.divsi"(%113, %104) : (i32, i32) -> i32
        %115 = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
        %116 = "arith.muli"(%112, %114) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %117 = "tt.get_num_programs"() <{axis = 0 : i32}> : () -> i32
        %118 = "scf.for"(%115, %116, %117, %105) ({
        ^bb4(%119: i32, %120: i32):
          %121 = "arith.muli"(%114, %106) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %122 = "arith.divsi"(%119, %121) : (i32, i32) -> i32
          %123 = "arith.muli"(%122, %106) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %124 = "arith.subi"(%112, %123) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %125 = "arith.minsi"(%124, %106) : (i32, i32) -> i32
          %126 = "arith.remsi"(%119, %125) : (i32, i32) -> i32
          %127 = "arith.addi"(%123, %126) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %128 = "arith.remsi"(%119, %121) : (i32, i32) -> i32
          %129 = "arith.divsi"(%128, %125) : (i32, i32) -> i32
          %130 = "scf.for"(%105, %100, %107, %120) ({
          ^bb5(%131: i32, %132: i32):
            %133 = "arith.remsi"(%132, %108) : (i32, i32) -> i32
            %134 = "arith.divsi"(%132, %108) : (i32, i32) -> i32
            %135 = "arith.andi"(%134, %109) : (i32, i32) -> i32
            %136 = "ttg.memdesc_index"(%97, %133) : (!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
            %137 = "arith.xori"(%135, %109) : (i32, i32) -> i32
            "ttng.wait_barrier"(%136, %137, %110) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
            %138 = "ttg.memdesc_index"(%96, %133) : (!ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
            "ttng.barrier_expect"(%138, %110) <{size = 49152 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
            %139 = "arith.muli"(%127, %102) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
            %140 = "ttg.memdesc_index"(%94, %133) : (!ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x64xf16, #shared, #smem, mutable>
            "ttng.async_tma_copy_global_to_local"(%92, %139, %131, %138, %140, %110) <{isVolatile = false, operandSegmentSizes = array<i32: 1, 2, 0, 1, 1, 1>}> : (!tt.tensordesc<128x64xf16, #shared>, i32, i32, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<128x64xf16, #shared, #smem, mutable>, i1) -> ()
            %141 = "arith.muli"(%129, %104) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
            %142 = "ttg.memdesc_index"(%95, %133) : (!ttg.memdesc<3x256x64xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<256x64xf16, #shared, #smem, mutable>
            "ttng.async_tma_copy_global_to_local"(%93, %141, %131, %138, %142, %110) <{isVolatile = false, operandSegmentSizes = array<i32: 1, 2, 0, 1, 1, 1>}> : (!tt.tensordesc<256x64xf16, #shared>, i32, i32, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<256x64xf16, #shared, #smem, mutable>, i1) -> ()
            %143 = "arith.addi"(%132, %109) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
            "scf.yield"(%143) : (i32) -> ()
          }) : (i32, i32, i32, i32) -> i32
          "scf.yield"(%130) : (i32) -> ()
        }) : (i32, i32, i32, i32) -> i32
        "ttg.warp_return"() : () -> ()
      }) : (!tt.tensordesc<128x64xf16, #shared>, !tt.tensordesc<256x64xf16, #shared>, !ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>, !ttg.memdesc<3x256x64xf16, #shared, #smem, mutable>, !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>, i32, i32, i32) -> ()
    }) : () -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = "x", ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32, "ttng.two-ctas" = false} : () -> ()
