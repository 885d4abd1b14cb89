// Two partitions read each slot, and both release it, but the empty barrier counts one arrival: the first of them
// gives the slot away.
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#barriers = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
"builtin.module"() ({
  "tt.func"() <{function_type = (!tt.tensordesc<tensor<64x64xf16, #shared>>, i32, i32) -> (), sym_name = "kernel", sym_visibility = "public"}> ({
  ^bb0(%a_desc: !tt.tensordesc<tensor<64x64xf16, #shared>>, %n: i32, %m: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %buffer = "ttg.local_alloc"() : () -> !ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>
    %full = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #barriers, #smem, mutable>
    %empty = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #barriers, #smem, mutable>
    %full0 = "ttg.memdesc_index"(%full, %zero) : (!ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #barriers, #smem, mutable>
    "ttng.init_barrier"(%full0) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>) -> ()
    %empty0 = "ttg.memdesc_index"(%empty, %zero) : (!ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #barriers, #smem, mutable>
    "ttng.init_barrier"(%empty0) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>) -> ()  // wrong
    "ttng.init_barrier"(%empty0) <{count = 2 : i32}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>) -> ()  // mended
    %full1 = "ttg.memdesc_index"(%full, %one) : (!ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #barriers, #smem, mutable>
    "ttng.init_barrier"(%full1) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>) -> ()
    %empty1 = "ttg.memdesc_index"(%empty, %one) : (!ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #barriers, #smem, mutable>
    "ttng.init_barrier"(%empty1) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>) -> ()  // wrong
    "ttng.init_barrier"(%empty1) <{count = 2 : i32}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>) -> ()  // mended
    "ttg.warp_specialize"(%a_desc, %n, %m, %full, %empty, %buffer) <{partitionNumWarps = array<i32: 4, 4>, requestedRegisters = array<i32: 24, 24>}> ({
      %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
      %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
      %yes = "arith.constant"() <{value = true}> : () -> i1
      %zeros = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64x64xf32, #mma>}> : () -> tensor<64x64xf32, #mma>
      %sum:3 = "scf.for"(%zero, %n, %one, %zeros, %zero, %zero) ({
      ^bb0(%k: i32, %acc: tensor<64x64xf32, #mma>, %slot: i32, %parity: i32):
        %full_bar = "ttg.memdesc_index"(%full, %slot) : (!ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #barriers, #smem, mutable>
        "ttng.wait_barrier"(%full_bar, %parity, %yes) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>, i32, i1) -> ()
        %tile = "ttg.memdesc_index"(%buffer, %slot) : (!ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
        %next = "ttng.warp_group_dot"(%tile, %tile, %acc) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>, !ttg.memdesc<64x64xf16, #shared, #smem, mutable>, tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
        %empty_bar = "ttg.memdesc_index"(%empty, %slot) : (!ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #barriers, #smem, mutable>
        %done = "ttng.warp_group_dot_wait"(%next) <{pendings = 0 : i32}> : (tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
        "ttng.arrive_barrier"(%empty_bar, %yes) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>, i1) -> ()
        %more = "arith.addi"(%slot, %one) : (i32, i32) -> i32
        %wraps = "arith.cmpi"(%more, %two) <{predicate = 0 : i64}> : (i32, i32) -> i1
        %next_slot = "arith.select"(%wraps, %zero, %more) : (i1, i32, i32) -> i32
        %turn = "arith.extui"(%wraps) : (i1) -> i32
        %next_parity = "arith.xori"(%parity, %turn) : (i32, i32) -> i32
        "scf.yield"(%done, %next_slot, %next_parity) : (tensor<64x64xf32, #mma>, i32, i32) -> ()
      }) : (i32, i32, i32, tensor<64x64xf32, #mma>, i32, i32) -> (tensor<64x64xf32, #mma>, i32, i32)
      "ttg.warp_yield"() : () -> ()
    }, {
      "ttg.warp_specialize.partitions"() ({
        ^bb0(%a_desc: !tt.tensordesc<tensor<64x64xf16, #shared>>, %n: i32, %m: i32, %full: !ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, %empty: !ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, %buffer: !ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>):
          %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
          %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
          %yes = "arith.constant"() <{value = true}> : () -> i1
          %written:2 = "scf.for"(%zero, %n, %one, %zero, %zero) ({
          ^bb0(%k: i32, %slot: i32, %parity: i32):
            %free = "arith.xori"(%parity, %one) : (i32, i32) -> i32
            %empty_bar = "ttg.memdesc_index"(%empty, %slot) : (!ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #barriers, #smem, mutable>
            "ttng.wait_barrier"(%empty_bar, %free, %yes) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>, i32, i1) -> ()
            %full_bar = "ttg.memdesc_index"(%full, %slot) : (!ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #barriers, #smem, mutable>
            "ttng.barrier_expect"(%full_bar, %yes) <{size = 8192 : i32}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>, i1) -> ()
            %tile = "ttg.memdesc_index"(%buffer, %slot) : (!ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
            "ttng.async_tma_copy_global_to_local"(%a_desc, %zero, %zero, %full_bar, %tile, %yes) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false}> : (!tt.tensordesc<tensor<64x64xf16, #shared>>, i32, i32, !ttg.memdesc<1xi64, #barriers, #smem, mutable>, !ttg.memdesc<64x64xf16, #shared, #smem, mutable>, i1) -> ()
            %more = "arith.addi"(%slot, %one) : (i32, i32) -> i32
            %wraps = "arith.cmpi"(%more, %two) <{predicate = 0 : i64}> : (i32, i32) -> i1
            %next_slot = "arith.select"(%wraps, %zero, %more) : (i1, i32, i32) -> i32
            %turn = "arith.extui"(%wraps) : (i1) -> i32
            %next_parity = "arith.xori"(%parity, %turn) : (i32, i32) -> i32
            "scf.yield"(%next_slot, %next_parity) : (i32, i32) -> ()
          }) : (i32, i32, i32, i32, i32) -> (i32, i32)
          "ttg.warp_return"() : () -> ()
      }, {
        ^bb0(%a_desc: !tt.tensordesc<tensor<64x64xf16, #shared>>, %n: i32, %m: i32, %full: !ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, %empty: !ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, %buffer: !ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>):
          %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
          %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
          %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
          %yes = "arith.constant"() <{value = true}> : () -> i1
          %zeros = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64x64xf32, #mma>}> : () -> tensor<64x64xf32, #mma>
          %sum:3 = "scf.for"(%zero, %n, %one, %zeros, %zero, %zero) ({
          ^bb0(%k: i32, %acc: tensor<64x64xf32, #mma>, %slot: i32, %parity: i32):
            %full_bar = "ttg.memdesc_index"(%full, %slot) : (!ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #barriers, #smem, mutable>
            "ttng.wait_barrier"(%full_bar, %parity, %yes) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>, i32, i1) -> ()
            %tile = "ttg.memdesc_index"(%buffer, %slot) : (!ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
            %next = "ttng.warp_group_dot"(%tile, %tile, %acc) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>, !ttg.memdesc<64x64xf16, #shared, #smem, mutable>, tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
            %empty_bar = "ttg.memdesc_index"(%empty, %slot) : (!ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #barriers, #smem, mutable>
            %done = "ttng.warp_group_dot_wait"(%next) <{pendings = 0 : i32}> : (tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
            "ttng.arrive_barrier"(%empty_bar, %yes) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #barriers, #smem, mutable>, i1) -> ()
            %more = "arith.addi"(%slot, %one) : (i32, i32) -> i32
            %wraps = "arith.cmpi"(%more, %two) <{predicate = 0 : i64}> : (i32, i32) -> i1
            %next_slot = "arith.select"(%wraps, %zero, %more) : (i1, i32, i32) -> i32
            %turn = "arith.extui"(%wraps) : (i1) -> i32
            %next_parity = "arith.xori"(%parity, %turn) : (i32, i32) -> i32
            "scf.yield"(%done, %next_slot, %next_parity) : (tensor<64x64xf32, #mma>, i32, i32) -> ()
          }) : (i32, i32, i32, tensor<64x64xf32, #mma>, i32, i32) -> (tensor<64x64xf32, #mma>, i32, i32)
          "ttg.warp_return"() : () -> ()
      }) : () -> ()
    }) : (!tt.tensordesc<tensor<64x64xf16, #shared>>, i32, i32, !ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, !ttg.memdesc<2x1xi64, #barriers, #smem, mutable>, !ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>) -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} : () -> ()
